package io.pillarbox.state.rocksdb

import java.nio.file.{Files, Path}
import java.util

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Try

import io.pillarbox.state.StateBackendException
import io.pillarbox.state.rocksdb.cache._
import io.pillarbox.state.rocksdb.entries.WriteCensus
import io.pillarbox.testing.TestDisk
import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** How changes leave the write-back cache: sorted, to a file, and back from there. */
class ChangeSpillSuite extends AnyFunSuite with ScalaCheckPropertyChecks with BeforeAndAfterAll {
  import ChangeSpillSuite._

  private lazy val root: Path = TestDisk.newDirectory("pillarbox-spill")

  override protected def afterAll(): Unit = TestDisk.delete(root)

  private def withSpill[A](test: (ChangeSpill, Path) => A): A = {
    val directory = Files.createTempDirectory(root, "spill")
    val spill = new ChangeSpill(directory, "changes.spill")
    try test(spill, directory)
    finally spill.close()
  }

  /** Short keys of few different bytes, so that many share a beginning, and some that are long. */
  private val key: Gen[Seq[Byte]] = Gen.frequency(
    8 -> Gen.listOf(Gen.oneOf(Seq[Byte](0, 1, -1))),
    4 -> Gen.listOf(Arbitrary.arbitrary[Byte]),
    1 -> Gen.choose(200, 600).map(length => Seq.fill(length)(7.toByte)),
    1 -> Gen.choose(0, 9).map(last => Seq.fill(400)(0.toByte) :+ last.toByte)
  )

  private val entry: Gen[(Id, Option[Seq[Byte]])] = for {
    column <- Gen.oneOf(0, 1, 300)
    key <- key
    value <- Gen.option(Gen.listOf(Arbitrary.arbitrary[Byte]))
  } yield ((column, key), value)

  private def cacheOf(entries: Iterable[(Id, Option[Seq[Byte]])]): (WriteBackCache, EntryOrder) = {
    val cache = new WriteBackCache(1 << 20, CacheBudget.None)
    entries.foreach { case ((column, key), value) =>
      val found = cache.find(column, key.toArray, key.length)
      val entry = if (found >= 0) found else cache.add(column, key.toArray, key.length)
      value.fold(cache.setAbsent(entry))(bytes => cache.setValue(entry, bytes.toArray, bytes.length))
      cache.mark(entry, WriteBackCache.Changed)
    }
    val order = new EntryOrder(cache)
    (0 until cache.size).groupBy(cache.column).toSeq.sortBy(_._1).foreach { case (_, ofColumn) =>
      val from = order.size
      ofColumn.foreach(order.add)
      order.sort(from)
    }
    (cache, order)
  }

  private def idsOf(cache: WriteBackCache, order: EntryOrder): Seq[Id] = (0 until order.size).map { i =>
    val (at, length) = (cache.keyOffset(order(i)), cache.keyLength(order(i)))
    (cache.column(order(i)), util.Arrays.copyOfRange(cache.bytes, at, at + length).toSeq)
  }

  test("entries are sorted by column, then by the unsigned bytes of their keys") {
    forAll(Gen.listOf(entry)) { entries =>
      val (cache, order) = cacheOf(entries)
      assert(idsOf(cache, order) == entries.map(_._1).distinct.sorted(ById))
    }
  }

  test("thousands of entries are sorted too") {
    val random = new java.util.Random(3)
    val keys = Seq.fill(20000)(Seq.fill(random.nextInt(20))(random.nextInt(6).toByte)).distinct
    val (cache, order) = cacheOf(keys.map(key => ((random.nextInt(3), key), None)))
    assert(idsOf(cache, order) == idsOf(cache, order).sorted(ById) && order.size == keys.size)
  }

  test("the merged runs have each entry once, as the newest run has it") {
    forAll(Gen.listOf(Gen.listOf(entry)), minSuccessful(15)) { runs =>
      withSpill { (spill, _) =>
        val expected = mutable.Map.empty[Id, Option[Seq[Byte]]]
        runs.foreach { run =>
          val (cache, order) = cacheOf(run)
          spill.add(new CachedEntries(cache, order, WriteBackCache.Changed))
          expected ++= run
        }
        assert(read(new MergedChanges(spill.cursors)) == expected.toSeq.sortBy(_._1)(ById))
        spill.clear()
        assert(spill.isEmpty && spill.cursors.isEmpty)
      }
    }
  }

  test("what is only the end of a value is joined to what older runs have of it") {
    forAll(Gen.listOf(Gen.listOf(Gen.zip(entry, Gen.oneOf(true, false)))), minSuccessful(15)) { runs =>
      withSpill { (spill, _) =>
        val expected = mutable.Map.empty[Id, Option[Seq[Byte]]]
        runs.foreach { run =>
          val last = run.map { case ((id, value), isEnd) => id -> ((value, isEnd && value.isDefined)) }.toMap
          val (cache, order) = cacheOf(last.map { case (id, (value, _)) => id -> value })
          for (i <- 0 until order.size if last(idsOf(cache, order)(i))._2)
            cache.mark(order(i), WriteBackCache.Partial)
          spill.add(new CachedEntries(cache, order, WriteBackCache.Changed))
          last.foreach { case (id, (value, isEnd)) =>
            val before = if (isEnd) expected.get(id).flatten.getOrElse(Nil) else Nil
            expected(id) = value.map(before ++ _)
          }
        }
        assert(read(new MergedChanges(spill.cursors)) == expected.toSeq.sortBy(_._1)(ById))
      }
    }
  }

  test("many runs become few, and lose nothing") {
    withSpill { (spill, _) =>
      val expected = mutable.Map.empty[Id, Option[Seq[Byte]]]
      for (run <- 0 until 64 * 64 + 70) {
        val entries = (0 until 3).map(i => ((0, Seq((run * 7 + i).toByte)), Some(Seq(run.toByte, i.toByte))))
        val (cache, order) = cacheOf(entries)
        spill.add(new CachedEntries(cache, order, WriteBackCache.Changed))
        expected ++= entries
        assert(spill.cursors.size < 3 * 64)
      }
      assert(spill.cursors.size == 1 + 1 + 6)
      assert(read(new MergedChanges(spill.cursors)) == expected.toSeq.sortBy(_._1)(ById))
    }
  }

  test("a value larger than a block comes back") {
    withSpill { (spill, _) =>
      val large = Seq.tabulate(300000)(_.toByte)
      val entries = Seq((0, Seq[Byte](1)) -> Some(large), (0, Seq[Byte](2)) -> Some(Seq.empty[Byte]))
      val (cache, order) = cacheOf(entries)
      spill.add(new CachedEntries(cache, order, WriteBackCache.Changed))
      assert(read(spill.cursors.head) == entries)
    }
  }

  test("a damaged file is an error that names it") {
    withSpill { (spill, directory) =>
      val (cache, order) = cacheOf(Seq((0, Seq[Byte](1)) -> Some(Seq.fill(100)(3.toByte))))
      spill.add(new CachedEntries(cache, order, WriteBackCache.Changed))
      val file = openFiles().find(_._1.startsWith(directory.toString))
      if (file.isEmpty) cancel("no /proc on this system, and the file has lost its name")
      file.foreach { case (_, descriptor) =>
        Files.write(descriptor, Files.readAllBytes(descriptor).updated(50, 9.toByte))
      }
      val error = intercept[StateBackendException](read(spill.cursors.head))
      assert(error.condition == "STATE_FILE_CORRUPT" && error.getMessage.contains(directory.toString))
    }
  }

  /** What this process has open, by name, and where to reach it. */
  private def openFiles(): Seq[(String, Path)] = {
    val descriptors = Path.of("/proc/self/fd")
    if (!Files.isDirectory(descriptors)) Nil
    else {
      val all = Files.list(descriptors)
      try
        all.iterator.asScala
          .flatMap(fd => Try(Files.readSymbolicLink(fd).toString -> fd).toOption)
          .toList
      finally all.close()
    }
  }

  test("a directory that is gone is an error that names it, and nothing stays in one that is there") {
    withSpill { (spill, directory) =>
      Files.delete(directory)
      val (cache, order) = cacheOf(Seq((0, Seq[Byte](1)) -> None))
      val error =
        intercept[StateBackendException](spill.add(new CachedEntries(cache, order, WriteBackCache.Changed)))
      assert(error.condition == "STATE_STORE_FAILED" && error.getMessage.contains(directory.toString))
      Files.createDirectory(directory)
      spill.add(new CachedEntries(cache, order, WriteBackCache.Changed))
      assert(read(spill.cursors.head) == Seq((0, Seq[Byte](1)) -> None))
      spill.close()
      assert(directory.toFile.list.isEmpty)
    }
  }

  test("writes of unknown effect are counted exactly while they are few, and on average when they are many") {
    val few = new WriteCensus
    assert(Seq.fill(1000)(few.weight()).forall(_ == 1))
    val sampled = Seq.fill(64 * 5000)(few.weight())
    assert(sampled.toSet == Set(0, 64) && math.abs(sampled.sum - 64 * 5000) < 64 * 5000 / 10)
  }
}

object ChangeSpillSuite {
  type Id = (Int, Seq[Byte])

  private val ById: Ordering[Id] = (one, other) =>
    if (one._1 != other._1) Integer.compare(one._1, other._1)
    else util.Arrays.compareUnsigned(one._2.toArray, other._2.toArray)

  private def read(cursor: ChangeCursor): Seq[(Id, Option[Seq[Byte]])] = {
    val found = Seq.newBuilder[(Id, Option[Seq[Byte]])]
    while (cursor.advance()) {
      def part(at: Int, length: Int) = util.Arrays.copyOfRange(cursor.bytes, at, at + length).toSeq
      val value =
        if (cursor.valueLength < 0) None else Some(part(cursor.valueOffset, cursor.valueLength))
      found += (cursor.column, part(cursor.keyOffset, cursor.keyLength)) -> value
    }
    found.result()
  }
}
