package io.pillarbox.metered.journal

import java.io.{FileNotFoundException, IOException, InterruptedIOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{CountDownLatch, CyclicBarrier, ForkJoinPool, TimeUnit}

import scala.collection.mutable
import scala.util.Using

import org.scalacheck.Gen
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.tagobjects.Slow
import org.scalatest.time.{Seconds, Span}
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** Answers in a folder: what is found, by whom, and after what. */
class JournalSuite extends AnyFunSuite with ScalaCheckPropertyChecks with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(20, Seconds))
  override implicit val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 200)

  private val asked = new JournalOperator("""{"name":"asked"}""")

  private final class Fixture(val files: JournalFiles, limits: JournalLimits = JournalLimits()) {
    var now = 1000L
    @volatile var nanos = 0L
    files match {
      case memory: MemoryJournalFiles => memory.clock = () => now
      case _ => ()
    }

    /** Another process. */
    def process(later: (Long, Runnable) => Unit = (_, _) => ()): Journals =
      new Journals(() => nanos, () => now, limits, later = later)

    def hold(
        journals: Journals,
        ttlMs: Long = 0L,
        operator: JournalOperator = asked
    ): HeldJournal = journals.hold("here", ttlMs, operator, files)
  }

  private def memory(persists: Boolean = true) = new MemoryJournalFiles(persists)

  private def key(n: Int) = CallKey(n * 0x9e3779b97f4a7c15L, n.toLong)

  private def put(journal: HeldJournal, n: Int, text: String): Unit = {
    journal.open()
    val bytes = text.getBytes(UTF_8)
    journal.add(key(n), CallCost(1), bytes ++ Array[Byte](1, 2, 3), bytes.length)
    journal.flush()
  }

  private def found(journal: HeldJournal, n: Int): Option[String] =
    Option(journal.find(key(n))).map(new String(_, UTF_8))

  private def withFolder(test: Path => Unit): Unit = {
    val folder = Files.createTempDirectory("journal")
    try test(folder)
    finally {
      Files.walk(folder).sorted(java.util.Comparator.reverseOrder()).forEach(Files.delete(_))
    }
  }

  private sealed trait Op
  private case class Put(process: Int, key: Int, size: Int) extends Op
  private case class Reopen(process: Int) extends Op
  private case class Crash(process: Int) extends Op
  private case class Wait(ms: Long) extends Op

  private val op: Gen[Op] = Gen.frequency(
    10 -> Gen.zip(Gen.choose(0, 2), Gen.choose(0, 30), Gen.choose(0, 20000)).map((Put.apply _).tupled),
    4 -> Gen.choose(0, 2).map(Reopen(_)),
    1 -> Gen.choose(0, 2).map(Crash(_)),
    2 -> Gen.choose(1L, 30L).map(Wait(_))
  )

  test("processes that write, come again and are killed at random find all that there is", Slow) {
    forAll(Gen.listOfN(60, op), Gen.oneOf(0L, 100L), minSuccessful(30)) { (ops, ttlMs) =>
      val f = new Fixture(memory(), JournalLimits(segmentBytes = 50000L))
      val processes = Array.fill(3)(f.process())
      val held = processes.map(f.hold(_, ttlMs))
      val written = mutable.Map.empty[Int, (String, Long)]
      def expected(n: Int) =
        written.get(n).filter(_ => ttlMs == 0 || f.now - written(n)._2 < ttlMs).map(_._1)
      ops.zipWithIndex.foreach { case (op, i) =>
        f.now += 1
        op match {
          case Put(process, n, size) =>
            val text = s"$i-" + "x" * size
            put(held(process), n, text)
            written(n) = (text, f.now)
            assert(found(held(process), n).contains(text))
          case Reopen(process) =>
            held(process).close()
            held(process) = f.hold(processes(process), ttlMs)
            (0 to 30).foreach(n => assert(found(held(process), n) == expected(n)))
          case Crash(process) =>
            processes(process) = f.process()
            held(process) = f.hold(processes(process), ttlMs)
            (0 to 30).foreach(n => assert(found(held(process), n) == expected(n)))
          case Wait(ms) => f.now += ms
        }
      }
    }
  }

  test("of a segment that was cut anywhere, the whole records count, and new ones go elsewhere") {
    val f = new Fixture(memory())
    val writer = f.hold(f.process())
    val sizes = mutable.Buffer(SegmentFormat.HeaderSize + SegmentFormat.entryOf(asked).length)
    (1 to 4).foreach { n =>
      put(writer, n, s"answer $n" * n)
      sizes += f.files.list().head.length.toInt
    }
    val (name, bytes) = f.files.asInstanceOf[MemoryJournalFiles].contents.head
    (0 to bytes.length).foreach { cut =>
      val files = memory()
      files.put(name, bytes.take(cut))
      val again = new Fixture(files)
      val held = again.hold(again.process())
      (1 to 4).foreach { n =>
        assert(found(held, n) == Option.when(cut >= sizes(n))(s"answer $n" * n), s"cut at $cut")
      }
      put(held, 9, "new")
      val third = again.hold(again.process())
      assert(found(third, 9).contains("new"))
      assert(files.contents(name).length == cut)
    }
  }

  test("a byte that is damaged never makes another answer of one") {
    val files = memory()
    val f = new Fixture(files)
    val writer = f.hold(f.process())
    (1 to 3).foreach(n => put(writer, n, s"answer $n"))
    val (name, bytes) = files.contents.head
    bytes.indices.filterNot(8 until 12 contains _).foreach { at =>
      val damaged = bytes.clone()
      damaged(at) = (damaged(at) ^ 0x41).toByte
      files.put(name, damaged)
      val held = f.hold(f.process())
      (1 to 3).foreach(n => assert(found(held, n).forall(_ == s"answer $n")))
      // It was sound when its place was learned.
      (1 to 3).foreach(n => assert(found(writer, n).forall(_ == s"answer $n")))
    }
  }

  test("a segment of another format is refused, as its answers would be paid for again") {
    for (version <- Seq[Byte](2, 4)) {
      val files = memory()
      files.put("a.calls", SegmentFormat.Magic ++ Array[Byte](0, 0, 0, version))
      val f = new Fixture(files)
      val told = intercept[IOException](f.hold(f.process())).getMessage
      assert(told.contains(s"format version $version, this Pillarbox reads 3"))
    }
  }

  test("the bytes of a segment: whose answers they are, their calls, when, their keys, and themselves") {
    val files = memory()
    val f = new Fixture(files)
    val (first, second) = {
      val process = f.process()
      (f.hold(process), f.hold(process, operator = new JournalOperator("{}")))
    }
    first.open()
    val cost = CallCost(2, Seq("é" -> 0.5))
    first.add(CallKey(1, 2, Array[Byte](5, 6)), cost, "yes".getBytes(UTF_8), 3)
    first.flush()
    put(second, 3, "")
    put(first, 4, "again")
    val segment = files.contents.values.head
    val idOfAsked = "44d6fa8247003e5e565816d7e6edc811"
    val expected = "50425843414c4c53 00000003" +
      "00000011 06b25ccc 01 7b226e616d65223a2261736b6564227d" +
      s"00000048 13f19cda 02 $idOfAsked 00000000000000010000000000000002 00000000000003e8" +
      "00000002 0000000e 00000002 3fe0000000000000 00000002 c3a9 0506 796573"
    val bytes = java.util.HexFormat.of.formatHex(segment)
    assert(bytes.startsWith(expected.filterNot(_ == ' ')))
    assert(kinds(segment) == Seq(1, 2, 1, 2, 2), "each operator is told once")
  }

  private def kinds(segment: Array[Byte]): Seq[Int] = {
    val bytes = java.nio.ByteBuffer.wrap(segment)
    Iterator
      .iterate(SegmentFormat.HeaderSize)(at => at + SegmentFormat.FrameSize + bytes.getInt(at))
      .takeWhile(_ < segment.length)
      .map(at => bytes.get(at + SegmentFormat.FrameSize).toInt)
      .toSeq
  }

  test("an entry of a kind that is not known is passed over") {
    val files = memory()
    val f = new Fixture(files)
    put(f.hold(f.process()), 1, "one")
    val (name, bytes) = files.contents.head
    val other = SegmentFormat.entryOf(asked)
    other(SegmentFormat.FrameSize) = 9
    val content = other.length - SegmentFormat.FrameSize
    java.nio.ByteBuffer.wrap(other).putInt(4, SegmentFormat.checksum(other, SegmentFormat.FrameSize, content))
    files.put(name, bytes.take(SegmentFormat.HeaderSize) ++ other ++ bytes.drop(SegmentFormat.HeaderSize))
    assert(found(f.hold(f.process()), 1).contains("one"))
  }

  test("an operator finds its own answers only, and theirs are no less there for its own to the same call") {
    val f = new Fixture(memory())
    val process = f.process()
    val others = Seq("a", "b").map(text => text -> new JournalOperator(text)).toMap
    others.foreach { case (text, operator) => put(f.hold(process, operator = operator), 1, text) }
    for (where <- Seq(process, f.process())) {
      others.foreach { case (text, operator) =>
        assert(found(f.hold(where, operator = operator), 1).contains(text))
      }
      assert(found(f.hold(where), 1).isEmpty)
    }
  }

  test("a file of somebody else in the folder is left alone") {
    val files = memory()
    files.put("notes.calls", "something else".getBytes(UTF_8))
    files.put("README", Array.emptyByteArray)
    val f = new Fixture(files)
    val held = f.hold(f.process())
    put(held, 1, "one")
    assert(found(held, 1).contains("one") && files.contents.size == 3)
  }

  test(
    "an answer does not count from when it is as old as the time to live, which is judged when it is read"
  ) {
    val f = new Fixture(memory())
    val process = f.process()
    val short = f.hold(process, 10)
    put(short, 1, "one")
    val (long, ever) = (f.hold(process, 20), f.hold(process))
    f.now += 9
    assert(found(short, 1).contains("one"))
    f.now += 1
    assert(found(short, 1).isEmpty && found(long, 1).contains("one"))
    f.now += 10000
    assert(found(long, 1).isEmpty && found(ever, 1).contains("one"))
  }

  test("a clock that was set back loses no answer at once, and lets none live for ever") {
    val f = new Fixture(memory())
    val held = f.hold(f.process(), 100)
    put(held, 1, "one")
    f.now -= 50
    assert(found(held, 1).contains("one"))
    f.now -= 50
    assert(found(held, 1).isEmpty)
    put(held, 1, "again")
    assert(found(held, 1).contains("again"))
    assert(found(f.hold(f.process()), 1).contains("one"))
  }

  test("an answer whose segment was deleted is no longer there, and others are") {
    val files = memory()
    val f = new Fixture(files)
    val first = f.hold(f.process())
    put(first, 1, "one")
    val second = f.hold(f.process())
    put(second, 2, "two")
    val third = f.hold(f.process())
    files.contents.keys.foreach { name =>
      if (!new String(files.contents(name), UTF_8).contains("two")) files.delete(name)
    }
    assert(found(third, 1).isEmpty && found(third, 2).contains("two"))
  }

  test("a process whose own segment was deleted writes to a new one when a task comes") {
    val files = memory()
    val f = new Fixture(files)
    val process = f.process()
    put(f.hold(process), 1, "one")
    files.contents.keys.foreach(files.delete)
    val held = f.hold(process)
    assert(found(held, 1).isEmpty)
    put(held, 2, "two")
    assert(found(f.hold(f.process()), 2).contains("two"))
  }

  test("a write that failed half way spoils nothing that was written before or after it") {
    val files = memory()
    val f = new Fixture(files)
    val process = f.process()
    val held = f.hold(process)
    put(held, 1, "one")
    files.room = 20 // less than an answer
    assert(intercept[IOException](put(held, 2, "two")).getMessage == "no room")
    assert(found(held, 2).isEmpty)
    intercept[IOException](held.open())
    files.room = Long.MaxValue
    put(held, 3, "three")
    for (journal <- Seq(held, f.hold(process), f.hold(f.process())))
      assert((1 to 3).map(found(journal, _)) == Seq(Some("one"), None, Some("three")))
  }

  test("what a failed write has left whole is found by the next task of the same process") {
    forAll(Gen.choose(0, 5), Gen.choose(0L, 60L), Gen.oneOf(true, false), minSuccessful(100)) {
      (before, rest, isRead) =>
        val files = memory()
        val f = new Fixture(files)
        val process = f.process()
        val task = f.hold(process)
        (1 to before).foreach(n => put(task, n, s"answer $n"))
        task.open()
        (6 to 20).foreach { n =>
          val bytes = s"answer $n".getBytes(UTF_8)
          task.add(key(n), CallCost(1), bytes, bytes.length)
        }
        files.room = 300L + rest
        assertThrows[IOException](task.flush())
        files.room = Long.MaxValue
        task.close()
        val there = Using.resource(new StoredAnswers(files, () => f.now).read(files.list().head.name))(_.size)
        assert(there > before)
        val next = f.hold(process)
        if (isRead) assert(found(next, 20).isEmpty)
        val whole = (1 to before).concat(6 to 5 + there - before)
        whole.foreach(n => assert(found(next, n).contains(s"answer $n")))
    }
  }

  test(
    "an hour later a segment without an answer is deleted, and of one that was cut its whole records are left"
  ) {
    val files = memory()
    val f = new Fixture(files)
    val writer = f.hold(f.process())
    (1 to 3).foreach(n => put(writer, n, s"answer $n"))
    val (name, bytes) = files.contents.head
    files.put("cut" + name, bytes.dropRight(5))
    files.put("header" + name, SegmentFormat.header)
    files.put("nothing" + name, Array.emptyByteArray)
    files.put("other" + name, "somebody else's".getBytes(UTF_8))
    val others = files.contents - name
    files.delete(name)
    f.hold(f.process())
    assert(files.contents.keySet == others.keySet)
    f.now += 3600001L
    val process = f.process()
    val task = f.hold(process)
    val left = files.contents
    assert(left.size == 2 && left.contains("other" + name))
    (1 to 2).foreach(n => assert(found(task, n).contains(s"answer $n")))
    assert(found(task, 3).isEmpty)
    var opened = 0
    files.onOpen { opened += 1 }
    f.hold(process).close()
    assert(opened == 0)
  }

  test("a segment without an answer that is old and still written to loses none") {
    val files = memory()
    val f = new Fixture(files)
    val writer = f.hold(f.process())
    writer.open()
    f.now += 3600001L
    f.hold(f.process())
    assert(files.contents.isEmpty)
    put(writer, 1, "answer")
    assert(found(f.hold(f.process()), 1).contains("answer"))
  }

  test("a folder with more segments than an index can number fails before a call") {
    val files = memory()
    val f = new Fixture(files, JournalLimits(segmentBytes = 1L, mostSegments = 3))
    val task = f.hold(f.process())
    (1 to 3).foreach(n => put(task, n, "answer"))
    assertThrows[TooManySegmentsException](task.open())
    val other = f.hold(f.process())
    assert(found(other, 3).contains("answer"))
    files.put("more" + files.list().head.name, files.contents.head._2)
    assertThrows[TooManySegmentsException](f.hold(f.process()))
  }

  test("a segment whose lease another process has ended is left for a new one, and no task hears of it") {
    val files = memory()
    val f = new Fixture(files)
    val held = f.hold(f.process())
    put(held, 1, "one")
    files.onPersist = () => {
      files.onPersist = () => ()
      throw new IOException("lease")
    }
    put(held, 2, "two")
    held.close()
    val reader = f.hold(f.process())
    assert((1 to 2).map(found(reader, _)) == Seq(Some("one"), Some("two")))
    assert(files.contents.size == 2)
    // A second failure, or an interrupt, ends it.
    val again = f.hold(f.process())
    for (problem <- Seq(new IOException("lease"), new InterruptedIOException("lease"))) {
      again.open()
      files.onPersist = () => throw problem
      again.add(key(3), CallCost(1), Array[Byte](1), 1)
      assert(intercept[IOException](again.flush()) eq problem)
      files.onPersist = () => ()
    }
  }

  test("a folder that can't be written to fails before a call, and can still be read") {
    val files = memory()
    val f = new Fixture(files)
    put(f.hold(f.process()), 1, "one")
    files.isReadOnly = true
    val held = f.hold(f.process())
    assert(found(held, 1).contains("one"))
    assert(intercept[IOException](held.open()).getMessage == "read-only")
  }

  test("where files are safe once they are closed, that they can't be is known before a call") {
    val files = memory(persists = false)
    val f = new Fixture(files)
    val process = f.process()
    files.onClose = () => throw new IOException("no permission")
    (1 to 2).foreach(_ =>
      assert(intercept[IOException](f.hold(process).open()).getMessage == "no permission")
    )
    files.onClose = () => ()
    f.hold(process).open()
    files.onClose = () => throw new IOException("tried again")
    val held = f.hold(process)
    put(held, 1, "one")
    assert(intercept[IOException](held.close()).getMessage == "tried again")
    assert(files.contents.isEmpty)
  }

  test("a full segment whose answers are safe fails nobody when it can't be closed") {
    val files = memory()
    val f = new Fixture(files, JournalLimits(segmentBytes = 100))
    val process = f.process()
    val held = f.hold(process)
    files.onClose = () => throw new IOException("the lease is gone")
    (1 to 3).foreach(n => put(held, n, "x" * 200))
    files.onClose = () => ()
    held.close()
    (1 to 3).foreach(n => assert(found(f.hold(f.process()), n).contains("x" * 200)))
  }

  test("a segment that is being written is read on where a list tells the length of its beginning") {
    val files = memory()
    val f = new Fixture(files)
    files.tellsLengths = false
    val writer = f.hold(f.process())
    writer.open()
    val process = f.process()
    assert(found(f.hold(process), 1).isEmpty)
    (1 to 2).foreach { n =>
      put(writer, n, s"answer $n")
      assert(found(f.hold(process), n).contains(s"answer $n"))
    }
  }

  test("segments are read side by side, since each may take a request") {
    val files = memory()
    val f = new Fixture(files)
    val count = 4
    (1 to count).foreach(n => put(f.hold(f.process()), n, s"answer $n"))
    val all = new CyclicBarrier(count)
    val meeting = new DelegatingJournalFiles(files) {
      override def open(name: String): JournalInput = {
        all.await(20, TimeUnit.SECONDS)
        super.open(name)
      }
    }
    f.process().hold("here", 0L, asked, meeting).close()
    val held = f.hold(f.process())
    (1 to count).foreach(n => assert(found(held, n).contains(s"answer $n")))
    val failing = new DelegatingJournalFiles(files) {
      override def open(name: String): JournalInput = throw new IOException(s"$name is unreachable")
    }
    assert(
      intercept[IOException](f.process().hold("here", 0L, asked, failing)).getMessage.contains("unreachable")
    )
  }

  test("where files are safe once they are closed, a segment lasts for an interval at most") {
    val files = memory(persists = false)
    val f = new Fixture(files, JournalLimits(flushIntervalMs = 50))
    val held = f.hold(f.process())
    put(held, 1, "one")
    eventually(assert(found(f.hold(f.process()), 1).contains("one")))
    assert(found(held, 1).contains("one"))
    put(held, 2, "two")
    eventually(assert(found(f.hold(f.process()), 2).contains("two")))
    assert(files.contents.size == 2)
  }

  test(
    "where files are safe once they are closed, tasks of the process find an answer before, and wait for it"
  ) {
    val files = memory(persists = false)
    val f = new Fixture(files, JournalLimits(flushIntervalMs = TimeUnit.DAYS.toMillis(1)))
    val process = f.process()
    val Seq(first, second, third, fourth) = Seq.fill(4)(f.hold(process, ttlMs = 100))
    put(first, 1, "one")
    assert(files.contents.isEmpty && found(second, 1).contains("one"))
    f.now += 100
    assert(found(second, 1).isEmpty)
    put(first, 1, "again")
    second.close()
    assert(files.contents.size == 1 && found(third, 1).contains("again"))
    put(first, 2, "two")
    assert(found(third, 2).contains("two"))
    files.room = 20
    intercept[IOException](put(fourth, 3, "three"))
    assert(found(fourth, 2).isEmpty, "it is lost")
    assert(intercept[IOException](third.close()).getMessage.contains("was given up"))
  }

  test("where files are safe once they are closed, a task that wrote closes them when it ends") {
    val files = memory(persists = false)
    val f = new Fixture(files, JournalLimits(flushIntervalMs = TimeUnit.DAYS.toMillis(1)))
    val process = f.process()
    val (first, second) = (f.hold(process), f.hold(process))
    put(first, 1, "one")
    put(second, 2, "two")
    assert(files.contents.isEmpty)
    first.close()
    assert(files.contents.size == 1)
    second.close()
    val held = f.hold(f.process())
    assert(found(held, 1).contains("one") && found(held, 2).contains("two"))
    held.open()
    held.close()
    assert(files.contents.size == 1, "a segment without a record is not kept")
  }

  test("where files are safe once they are closed, what a task settles is safe at once") {
    val files = memory(persists = false)
    val f = new Fixture(files, JournalLimits(flushIntervalMs = TimeUnit.DAYS.toMillis(1)))
    val first = f.hold(f.process())
    put(first, 1, "one")
    first.settle()
    assert(files.contents.size == 1 && found(f.hold(f.process()), 1).contains("one"))
    first.settle()
    put(first, 2, "two")
    assert(files.contents.size == 1 && found(first, 2).contains("two"))
    first.close()
    assert(files.contents.size == 2)
  }

  test("where files are safe once they are closed, a failed write of one task is not unheard by others") {
    val files = memory(persists = false)
    val f = new Fixture(files, JournalLimits(flushIntervalMs = TimeUnit.DAYS.toMillis(1)))
    val process = f.process()
    val (first, second, third) = (f.hold(process), f.hold(process), f.hold(process))
    put(first, 1, "one")
    files.room = 20
    intercept[IOException](put(second, 2, "two"))
    files.room = Long.MaxValue
    put(third, 3, "three")
    third.close()
    assert(intercept[IOException](first.open()).getMessage.contains("was given up"))
    intercept[IOException](first.close())
    assert(found(f.hold(f.process()), 3).contains("three"))
  }

  for (persists <- Seq(true, false))
    test(s"files go when nothing in them counts any more, where writes persist: $persists") {
      val files = memory(persists)
      val f = new Fixture(files)
      val (process, always) = (f.process(), f.hold(f.process()))
      put(always, 0, "for ever")
      always.close()
      (1 to 100).foreach { i =>
        f.now += 50
        val held = f.hold(process, ttlMs = 100)
        put(held, i, s"answer $i")
        held.close()
        assert(found(f.hold(f.process(), ttlMs = 100), i).contains(s"answer $i"))
        assert(files.contents.size <= 10)
      }
      f.now += 1000
      f.hold(process, ttlMs = 100)
      assert(files.contents.size == 1 && found(f.hold(f.process()), 0).contains("for ever"))
      // A file that is gone by now is not written to.
      val held = f.hold(process, ttlMs = 100)
      put(held, 1, "again")
      held.close()
      assert(found(f.hold(f.process(), ttlMs = 100), 1).contains("again"))
    }

  for (problem <- Seq(new IOException("not closed"), new IllegalStateException("not closed")))
    test(s"an interval whose segment can't be closed fails the next write, or the task's end: $problem") {
      def lost(body: => Unit) = assert(intercept[IOException](body).getMessage.contains("not closed"))
      val files = memory(persists = false)
      // A process first tries with an empty file.
      val left = new AtomicInteger(1)
      files.onClose = () => if (left.getAndDecrement() <= 0) throw problem
      val f = new Fixture(files, JournalLimits(flushIntervalMs = 10))
      val held = f.hold(f.process())
      put(held, 1, "one")
      eventually(lost(held.open()))
      // Nobody else hears of it, nor takes the news away.
      left.set(1)
      val process = f.process()
      val (other, idle) = (f.hold(process), f.hold(process))
      put(other, 1, "one")
      idle.close()
      lost(other.close())
      lost(held.close())
    }

  test("a journal that nobody uses is closed after ten minutes, whether or not another one is used") {
    val f = new Fixture(memory())
    val due = mutable.Queue.empty[(Long, Runnable)]
    val process = f.process((nanos, body) => due += ((f.nanos + nanos, body)): Unit)
    def timer(): Unit = {
      val (nanos, body) = due.dequeue()
      f.nanos = nanos
      body.run()
    }
    val held = f.hold(process)
    put(held, 1, "one")
    held.close()
    f.nanos += TimeUnit.MINUTES.toNanos(9)
    f.hold(process).close()
    timer()
    assert(process.openCount == 1 && due.size == 1, "it was used a minute ago")
    val again = f.hold(process)
    timer()
    assert(process.openCount == 1 && due.isEmpty, "it is used")
    again.close()
    timer()
    assert(process.openCount == 0 && due.isEmpty)
    assert(found(f.hold(process), 1).contains("one"))
  }

  test("what was added is found before it is flushed, and is gone if that fails") {
    val files = memory()
    val f = new Fixture(files)
    val held = f.hold(f.process())
    Seq("old", "new").foreach(text => held.add(key(1), CallCost(1), text.getBytes(UTF_8), 3))
    assert(found(held, 1).contains("new"))
    files.isReadOnly = true
    intercept[IOException](held.flush())
    assert(found(held, 1).isEmpty)
    files.isReadOnly = false
    held.add(key(1), CallCost(1), "again".getBytes(UTF_8), 5)
    held.flush()
    assert(found(held, 1).contains("again") && found(f.hold(f.process()), 1).contains("again"))
  }

  test("a task learns of what another process writes while both run") {
    val f = new Fixture(memory())
    val (first, second) = (f.hold(f.process()), f.hold(f.process()))
    put(first, 1, "one")
    assert(found(second, 1).isEmpty)
    f.nanos += TimeUnit.SECONDS.toNanos(2)
    eventually(assert(found(second, 1).contains("one")))
  }

  test("a task learns of it while functions of the user hold the threads of the common pool") {
    val free = new CountDownLatch(1)
    (1 to ForkJoinPool.getCommonPoolParallelism).foreach(_ =>
      ForkJoinPool.commonPool.execute(() => free.await())
    )
    try {
      val f = new Fixture(memory())
      val (first, second) = (f.hold(f.process()), f.hold(f.process()))
      put(first, 1, "one")
      f.nanos += TimeUnit.SECONDS.toNanos(2)
      assert(found(second, 1).isEmpty)
      eventually(assert(found(second, 1).contains("one")))
    } finally free.countDown()
  }

  test("of tasks that come at once, those that wait for another's look at the folder need none") {
    val (files, free, lists) = (memory(), new CountDownLatch(1), new AtomicInteger)
    val f = new Fixture(new DelegatingJournalFiles(files) {
      override def list(): Seq[JournalFile] = {
        lists.incrementAndGet()
        free.await()
        super.list()
      }
    })
    val process = f.process()
    val tasks = (1 to 8).map(_ => new Thread(() => f.hold(process): Unit))
    tasks.foreach(_.start())
    try eventually(assert(tasks.count(_.getState == Thread.State.BLOCKED) == 7))
    finally free.countDown()
    tasks.foreach(_.join())
    assert(lists.get == 2)
  }

  test("segments that are gone take no room") {
    val files = memory()
    val f = new Fixture(files)
    put(f.hold(f.process()), 1, "one")
    val (name, bytes) = files.contents.head
    val journal =
      new Journal(
        files,
        JournalLimits(),
        new RecordAge(0L, () => f.now),
        () => f.nanos,
        () => Path.of("none")
      )
    journal.refresh()
    (1 to 50).foreach { n =>
      files.put(s"$n.calls", bytes)
      journal.refresh()
      files.delete(name)
      files.delete(s"${n - 1}.calls")
      journal.refresh()
      assert(journal.segmentCount == 1 && journal.nameOf(journal.find(key(1).of(asked))) == s"$n.calls")
    }
    files.delete("50.calls")
    journal.refresh()
    assert(journal.segmentCount == 0 && journal.find(key(1).of(asked)) == null)
  }

  test("a file that can't be closed leaves no journal held, and one of another format no file open") {
    var (fails, opened) = (false, 0)
    val files = memory()
    val f = new Fixture(new DelegatingJournalFiles(files) {
      override def open(name: String): JournalInput = {
        val in = super.open(name)
        opened += 1
        new JournalInput {
          override def read(position: Long, into: Array[Byte], offset: Int, length: Int): Int =
            in.read(position, into, offset, length)
          override def close(): Unit = if (fails) throw new IOException("stale") else opened -= 1
        }
      }
    })
    val process = f.process()
    put(f.hold(f.process()), 1, "one")
    val held = f.hold(process)
    assert(found(held, 1).contains("one"))
    fails = true
    assert(intercept[IOException](held.close()).getMessage == "stale" && process.heldCount == 0)
    fails = false
    opened = 0
    files.put("a.calls", SegmentFormat.Magic ++ Array[Byte](0, 0, 0, 2))
    intercept[IOException](stored(f).read("a.calls"))
    assert(opened == 0)
  }

  test("a folder that took long to be read is looked at again about a second later") {
    val files = memory()
    val f = new Fixture(files)
    files.onListed { f.nanos += TimeUnit.SECONDS.toNanos(60) }
    val second = f.hold(f.process())
    put(f.hold(f.process()), 1, "one")
    f.nanos += TimeUnit.SECONDS.toNanos(2)
    eventually(assert(found(second, 1).contains("one")))
  }

  test("an answer that is there and can't be read fails the task, and is not asked for again") {
    val files = memory()
    val f = new Fixture(files)
    put(f.hold(f.process()), 1, "one")
    val held = f.hold(f.process())
    files.isUnreachable = true
    assert(intercept[IOException](found(held, 1)).getMessage == "unreachable")
    files.isUnreachable = false
    assert(found(held, 1).contains("one"))
  }

  private def stored(f: Fixture) = new StoredAnswers(f.files, () => f.now)

  /** All answers in the folder, each with its segment. */
  private def allOf(f: Fixture): Seq[(String, StoredAnswer)] = {
    val answers = stored(f)
    answers.segments().flatMap(file => Using.resource(answers.read(file.name))(_.map(file.name -> _).toSeq))
  }

  private def textsOf(f: Fixture): Seq[String] =
    allOf(f).map { case (_, answer) => new String(answer.payload, UTF_8) }

  /** Deletes the answers with these texts, as a purge does. */
  private def purge(f: Fixture, texts: Set[String]): Unit = {
    stored(f).deleteUnread()
    allOf(f)
      .filter { case (_, answer) => texts(new String(answer.payload, UTF_8)) }
      .groupMap(_._1)(_._2.offset)
      .foreach { case (segment, offsets) => stored(f).delete(segment, offsets.sorted.iterator) }
  }

  test("what is stored can be read: whose, which call, its key, when, what it cost, the answer") {
    val f = new Fixture(memory())
    val process = f.process()
    val (first, second) = (f.hold(process), f.hold(process, operator = new JournalOperator("{}")))
    put(second, 3, "")
    first.open()
    val cost = CallCost(3, Seq("tokens" -> 12.5, "usd" -> 0.25))
    first.add(CallKey(1, 2, Array[Byte](5, 6)), cost, "yes".getBytes(UTF_8), 3)
    first.flush()
    val found = allOf(f).map(_._2)
    assert(found.map(_.operator) == Seq("{}", """{"name":"asked"}"""))
    assert(found.map(_.cost) == Seq(CallCost(1), cost))
    assert(found(1).call == CallKey(1, 2) && found(1).call.values.toSeq == Seq[Byte](5, 6))
    assert(found.forall(_.writtenMs == 1000) && found(1).payload.toSeq == "yes".getBytes(UTF_8).toSeq)
    assert(stored(f).operators(stored(f).segments().head.name) == found.map(_.operator))
  }

  for (persists <- Seq(true, false))
    test(
      s"a purge beside a process that writes takes what it is told and nothing else, persists: $persists"
    ) {
      val files = memory(persists)
      val f = new Fixture(files, JournalLimits(segmentBytes = 2000))
      val process = f.process()
      val held = f.hold(process)
      val texts = (0 until 100).map(n => s"answer $n")
      texts.indices.foreach { n =>
        put(held, n, texts(n))
        if (n % 10 == 9) purge(f, (n - 9 to n by 3).map(texts).toSet)
      }
      held.close()
      purge(f, texts.indices.filter(n => n % 10 % 3 == 0).map(texts).toSet)
      val left = texts.indices.filterNot(n => n % 10 % 3 == 0)
      assert(textsOf(f).sorted == left.map(texts).sorted)
      assert(!files.contents.values.exists(bytes => new String(bytes, UTF_8).contains("answer 93")))
      for (journals <- Seq(process, f.process())) {
        val again = f.hold(journals)
        assert(texts.indices.filter(found(again, _).isDefined) == left)
      }
      purge(f, texts.toSet)
      assert(files.contents.isEmpty)
    }

  test("a task that runs while answers move finds them where they are, and purged ones no more") {
    val f = new Fixture(memory())
    val (writer, reader) = (f.hold(f.process()), f.process())
    (1 to 3).foreach(n => put(writer, n, s"answer $n"))
    val held = f.hold(reader)
    purge(f, Set("answer 2"))
    assert((1 to 3).map(found(held, _).isDefined) == Seq(true, false, true))
    // It had read the copy and its source in one go.
    val files = f.files.asInstanceOf[MemoryJournalFiles]
    val (copy, bytes) = files.contents.head
    files.put("source.1.calls", bytes)
    val late = f.hold(f.process())
    files.delete("source.1.calls")
    assert(found(late, 1).contains("answer 1") && SegmentFormat.generationOf(copy) == 2)
  }

  test("a purge between the list of the folder and its reading hides no answer") {
    val files = memory()
    val f = new Fixture(files)
    val writer = f.hold(f.process())
    (1 to 2).foreach(n => put(writer, n, s"answer $n"))
    files.onListed(purge(f, Set("answer 2")))
    val held = f.hold(f.process())
    assert((1 to 2).map(found(held, _).isDefined) == Seq(true, false))
  }

  test("an answer that moved is found by tasks while another one learns where it is") {
    val files = memory()
    val f = new Fixture(files)
    val writer = f.hold(f.process())
    (1 to 2).foreach(n => put(writer, n, s"answer $n"))
    val process = f.process()
    val held = f.hold(process)
    f.hold(process) // has seen the segment a second time
    purge(f, Set("answer 2"))
    var meanwhile = Option.empty[String]
    files.onOpen { meanwhile = found(held, 1) }
    f.hold(process)
    assert(meanwhile.contains("answer 1"))
  }

  test("of two purges of a segment at once one fails, and none brings back what the other has deleted") {
    val files = memory()
    val f = new Fixture(files)
    val held = f.hold(f.process())
    (1 to 3).foreach(n => put(held, n, s"answer $n"))
    files.onCreate(purge(f, Set("answer 2")))
    intercept[FileNotFoundException](purge(f, Set("answer 1")))
    assert(textsOf(f) == Seq("answer 1", "answer 3") && files.contents.size == 1)
    purge(f, Set("answer 1"))
    assert(textsOf(f) == Seq("answer 3"))
  }

  test("a purge deletes files that nobody reads: those that are over, and one of a purge that was killed") {
    val files = memory()
    val f = new Fixture(files)
    put(f.hold(f.process(), ttlMs = 100), 1, "one")
    files.put(SegmentFormat.doomedName("a.1.calls"), Array.emptyByteArray)
    f.now += 300
    put(f.hold(f.process()), 2, "two")
    files.put("b.calls.gone.txt", Array.emptyByteArray)
    stored(f).deleteUnread()
    assert(textsOf(f) == Seq("two") && files.contents.size == 2)
  }

  test(
    "an answer that was written while its segment lost its name is written again before it counts as kept"
  ) {
    val files = memory()
    val f = new Fixture(files)
    val held = f.hold(f.process())
    put(held, 1, "one")
    files.onPersist = () => {
      files.onPersist = () => ()
      purge(f, Set("one"))
    }
    put(held, 2, "two")
    assert(textsOf(f).toSet == Set("two"))
    assert(found(held, 2).contains("two") && found(f.hold(f.process()), 2).contains("two"))
  }

  test("a purge that can't write loses nothing, and one of a segment that is gone says so") {
    val files = memory()
    val f = new Fixture(files)
    val held = f.hold(f.process())
    (1 to 3).foreach(n => put(held, n, s"answer $n"))
    files.room = 100
    assert(intercept[IOException](purge(f, Set("answer 2"))).getMessage == "no room")
    assert(textsOf(f) == Seq("answer 1", "answer 2", "answer 3"))
    intercept[FileNotFoundException](stored(f).delete("other.calls", Iterator(12L)))
    files.room = Long.MaxValue
    purge(f, Set("answer 2"))
    assert(textsOf(f) == Seq("answer 1", "answer 3"))
  }

  test("a purge ends what one has begun that was killed between the steps of a rename") {
    val files = memory(persists = false)
    val f = new Fixture(files)
    val held = f.hold(f.process())
    (1 to 3).foreach(n => put(held, n, s"answer $n"))
    held.close()
    val (name, bytes) = files.contents.head
    files.put(SegmentFormat.sealedName(name), bytes)
    assert(textsOf(f) == Seq("answer 1", "answer 2", "answer 3"), "none is there twice")
    purge(f, Set("answer 2"))
    assert(textsOf(f) == Seq("answer 1", "answer 3") && files.contents.size == 1)
  }

  test("a purge loses nothing by a rename that has failed, or is done and told to have failed") {
    for (isDone <- Seq(false, true); step <- Seq(1, 2)) {
      val files = memory(persists = false)
      val f = new Fixture(files)
      val held = f.hold(f.process())
      (1 to 3).foreach(n => put(held, n, s"answer $n"))
      held.close()
      var left = step
      val failing = () => {
        left -= 1
        if (left == 0) throw new IOException("slow down")
      }
      if (isDone) files.onRenamed = failing else files.onRename = failing
      intercept[IOException](purge(f, Set("answer 2")))
      assert(Set("answer 1", "answer 3").subsetOf(textsOf(f).toSet), s"$isDone, $step")
      purge(f, Set("answer 2"))
      assert(textsOf(f).sorted == Seq("answer 1", "answer 3"), s"$isDone, $step")
    }
  }

  test("names of segments tell for how long answers count, and whether anybody writes to them") {
    for (ttlMs <- Seq(0L, 5000L); generation <- Seq(0, 1, 12)) {
      val name = SegmentFormat.newName(ttlMs, generation)
      assert(SegmentFormat.isName(name) && SegmentFormat.generationOf(name) == generation)
      assert(SegmentFormat.ttlOf(name) == Option.when(ttlMs > 0)(ttlMs))
      val last = SegmentFormat.sealedName(name)
      assert(SegmentFormat.generationOf(last) == math.max(1, generation))
      assert(SegmentFormat.ttlOf(last) == SegmentFormat.ttlOf(name) && SegmentFormat.sealedName(last) == last)
    }
    assert(SegmentFormat.sealedName("a_b.calls") == "a_b.1.calls")
  }

  test("the local file system: two processes, a folder that is missing, a file in its place") {
    withFolder { folder =>
      val f = new Fixture(new LocalJournalFiles(folder.resolve("a/b")))
      val (first, second) = (f.process(), f.process())
      val held = f.hold(first)
      assert(found(held, 1).isEmpty)
      (1 to 2000).foreach(n => put(held, n, s"answer $n"))
      val other = f.hold(second)
      assert((1 to 2000).forall(n => found(other, n).contains(s"answer $n")))
      assert((1 to 2000).reverse.forall(n => found(other, n).contains(s"answer $n")))
      purge(f, Set("answer 7"))
      val after = f.hold(second)
      assert(found(after, 7).isEmpty && found(after, 8).contains("answer 8"))
      put(held, 2001, "after the purge")
      assert(found(f.hold(f.process()), 2001).contains("after the purge"))
      put(other, 3000, "of another")
      assert(found(f.hold(first), 3000).contains("of another"))
      val blocked = new Fixture(new LocalJournalFiles(Files.createFile(folder.resolve("file"))))
      intercept[IOException](blocked.hold(blocked.process()))
    }
  }

  test("the local file system: what is there and can't be opened is no file that is gone") {
    withFolder { folder =>
      val files = new LocalJournalFiles(folder)
      // A directory, since root may open all files.
      Files.createDirectory(folder.resolve("a.calls"))
      Seq[() => AutoCloseable](() => files.open("a.calls"), () => files.create("a.calls")).foreach { opened =>
        assert(!intercept[IOException](opened()).isInstanceOf[FileNotFoundException])
      }
      intercept[FileNotFoundException](files.open("b.calls"))
    }
  }

  test("an interrupted task harms no other task's journal") {
    withFolder { folder =>
      val f = new Fixture(new LocalJournalFiles(folder))
      val process = f.process()
      val (first, second) = (f.hold(process), f.hold(process))
      Thread.currentThread().interrupt()
      try {
        put(first, 1, "one")
        assert(found(first, 1).contains("one"))
      } finally assert(Thread.interrupted())
      put(second, 2, "two")
      assert(found(second, 1).contains("one") && found(second, 2).contains("two"))
    }
  }

  test("the index finds each of many keys, and no other") {
    val index = new JournalIndex(new RecordAge(0, () => 0L), () => fail("It fits in memory"))
    (1 to 100000).foreach(n => index.put(key(n), n.toLong, n % 1000, n.toLong, isNewest = false))
    assert(index.size == 100000)
    (1 to 100000).foreach(n => assert(index.find(key(n)) == RecordPlace(n % 1000, n.toLong)))
    assert((100001 to 100100).forall(n => index.find(key(n)) == null))
    index.put(key(1), 0L, 7, 8L, isNewest = false)
    assert(index.find(key(1)) == RecordPlace(1, 1L))
    index.put(key(1), 0L, 7, 8L, isNewest = true)
    assert(index.find(key(1)) == RecordPlace(7, 8L) && index.size == 100000)
  }

  test("records that no longer count leave the index, which stays as large as those that do need") {
    var now = 0L
    val index = new JournalIndex(new RecordAge(1000, () => now), () => fail("It fits in memory"))
    (1 to 100000).foreach { n =>
      now = n.toLong
      index.put(key(n), now, 1, n.toLong, isNewest = true)
      assert(index.size <= 3000)
    }
    assert((99001 to 100000).forall(n => index.find(key(n)) == RecordPlace(1, n.toLong)))
    assert(index.find(key(99000)) == null)
    // One from a future that does not count gives way.
    index.put(key(1), now + 5000, 1, 2L, isNewest = true)
    index.put(key(1), now, 1, 3L, isNewest = false)
    assert(index.find(key(1)) == RecordPlace(1, 3L))
  }

  for (ttlMs <- Seq(0L, 1000L))
    test(
      s"an index that is larger than its table finds on disk what a map would, with a time to live of $ttlMs",
      Slow
    ) {
      withFolder { folder =>
        forAll(Gen.long, minSuccessful(10)) { seed =>
          val random = new scala.util.Random(seed)
          var now = 10000L
          val age = new RecordAge(ttlMs, () => now)
          val index = new JournalIndex(age, () => folder, mostSlots = 64)
          val expected = mutable.Map.empty[Int, (Long, RecordPlace)]
          try {
            (1 to 3000).foreach { i =>
              now += random.nextInt(3)
              val (n, timeMs) = (random.nextInt(800), now - random.nextInt(500))
              index.put(key(n), timeMs, n % 7, i.toLong, isNewest = false)
              if (expected.get(n).forall { case (last, _) => timeMs >= last || !age.counts(last, now) })
                expected(n) = (timeMs, RecordPlace(n % 7, i.toLong))
            }
            assert(index.size > 64 && Files.list(folder).count() == 0, "its files have no names")
            (0 until 900).foreach { n =>
              val wanted = expected.get(n).filter { case (timeMs, _) => age.counts(timeMs, now) }.map(_._2)
              assert(Option(index.find(key(n))) == wanted, s"key $n")
            }
          } finally index.close()
        }
      }
    }

  test("keys that share their upper half are found on disk, wherever blocks end") {
    withFolder { folder =>
      val entries = for (high <- 1L to 5L; low <- -150L to 149L) yield new IndexEntry(high, low, low, high)
      val run = IndexRun.write(folder, entries.iterator)
      try {
        entries.foreach(entry => assert(run.find(CallKey(entry.high, entry.low)).timeMs == entry.low))
        for ((high, low) <- Seq((0L, 0L), (1L, -151L), (3L, 150L), (5L, 150L), (6L, 0L)))
          assert(run.find(CallKey(high, low)) == null)
      } finally run.close()
    }
  }

  test("operators with different times to live in one folder find what counts for each") {
    val f = new Fixture(memory())
    val process = f.process()
    put(f.hold(process, ttlMs = 100), 1, "one")
    f.now += 100
    assert(found(f.hold(process, ttlMs = 100), 1).isEmpty)
    assert(found(f.hold(process), 1).contains("one"))
    assert(found(f.hold(process, ttlMs = 101), 1).contains("one"))
  }
}
