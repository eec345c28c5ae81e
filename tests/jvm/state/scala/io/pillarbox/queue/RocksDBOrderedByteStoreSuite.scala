package io.pillarbox.queue

import io.pillarbox.testing.FewAndMany
import org.scalacheck.{Gen, Shrink}
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.tags.Slow
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** Writes wait and change places on their way to RocksDB; nobody may see that. */
@Slow
class RocksDBOrderedByteStoreSuite
    extends AnyFunSuite
    with ScalaCheckPropertyChecks
    with FewAndMany
    with BeforeAndAfterAll {
  import RocksDBOrderedByteStoreSuite._

  private lazy val database = new RocksDBFixture

  override protected def afterAll(): Unit = database.close()

  private def contentOf(store: OrderedByteStore, from: Array[Byte], until: Array[Byte]): Seq[Seq[Byte]] = {
    val cursor = store.scan(from, until)
    try Iterator.continually(cursor).takeWhile(_.advance()).map(_.key.toSeq).toSeq
    finally cursor.close()
  }

  random("every scan sees what a sorted set in memory has", 15, 100) { count =>
    forAll(Gen.listOf(step), minSuccessful(count)) { steps =>
      val store = database.newStoreOfItsOwn(limitBytes = 600)
      val model = new MemoryOrderedByteStore
      steps.foreach {
        case Put(key) => Seq(store, model).foreach(_.put(key))
        case Delete(key) => Seq(store, model).foreach(_.delete(key))
        case DeleteRange(from, until) => Seq(store, model).foreach(_.deleteRange(from, until))
        case Scan(from, until) => assert(contentOf(store, from, until) == contentOf(model, from, until))
      }
      store.flush()
      assert(contentOf(store, First, Last) == contentOf(model, First, Last))
    }
  }

  test("a scan shows nothing of others, also while a sweep comes to its end") {
    val family = database.db.columnFamily("swept")
    def isMine(key: Array[Byte]) = key(0) % 2 == 0
    val all = new RocksDBOrderedByteStore(database.db, family)
    val mine = new RocksDBOrderedByteStore(database.db, family, isMine = isMine)
    (1 to 50).foreach { _ =>
      (0 until 20).foreach(i => all.put(Array(i.toByte)))
      all.flush()
      database.db.hidden.in(family, isMine, _ => 0)
      val sweep = new Thread(() => database.db.hidden.sweep())
      sweep.start()
      while (!database.db.hidden.isEmpty) assert(contentOf(mine, First, Last).size == 10)
      sweep.join()
    }
  }
}

object RocksDBOrderedByteStoreSuite {
  private val First = Array.emptyByteArray
  private val Last = Array.fill(4)(0xff.toByte)

  private sealed trait Step
  private final case class Put(key: Array[Byte]) extends Step
  private final case class Delete(key: Array[Byte]) extends Step
  private final case class DeleteRange(from: Array[Byte], until: Array[Byte]) extends Step
  private final case class Scan(from: Array[Byte], until: Array[Byte]) extends Step

  private def bytes(least: Int, most: Int): Gen[Array[Byte]] =
    Gen.choose(least, most).flatMap(Gen.listOfN(_, Gen.oneOf(Seq[Byte](0, 1, 2, -1)))).map(_.toArray)

  /** Short ones, and long ones that differ only in their first or last bytes. */
  private val key: Gen[Array[Byte]] = Gen.oneOf(
    bytes(1, 4),
    Gen.zip(bytes(1, 3), bytes(0, 3)).map { case (start, end) => start ++ Array.fill(8)(7.toByte) ++ end }
  )

  private val bounds: Gen[(Array[Byte], Array[Byte])] = Gen.zip(key, key).map { case (one, other) =>
    if (java.util.Arrays.compareUnsigned(one, other) <= 0) (one, other) else (other, one)
  }

  private val step: Gen[Step] = Gen.frequency(
    10 -> key.map(Put(_)),
    5 -> key.map(Delete(_)),
    2 -> bounds.map { case (from, until) => DeleteRange(from, until) },
    2 -> bounds.map { case (from, until) => Scan(from, until) }
  )

  private implicit val noShrink: Shrink[List[Step]] = Shrink.shrinkAny
}
