package io.pillarbox.state.rocksdb

import java.io.{BufferedReader, InputStreamReader, OutputStream}
import java.lang.management.ManagementFactory
import java.nio.ByteBuffer
import java.nio.file.{Files, Path, Paths}
import java.util.concurrent.Executors
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._
import scala.util.{Failure, Try}

import io.pillarbox.api.{ScalaSerializers, Serializers, StateTtl}
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.state._
import io.pillarbox.state.rocksdb.store.RocksDBConfig
import io.pillarbox.tags.{Nightly, Soak}
import io.pillarbox.testing.TestDisk
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.tags.Slow

/** Memory, measured in JVMs of their own: each test has a small form for every run and a long one. */
@Slow
class RocksDBSoakSuite extends AnyFunSuite {

  private def jvm(heap: String, arguments: String*): Seq[String] = {
    val java = Paths.get(System.getProperty("java.home"), "bin", "java").toString
    val classPath = System.getProperty("java.class.path")
    // The heap is resident from the start, so that what grows is native memory.
    val memory = Seq(s"-Xms$heap", s"-Xmx$heap", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC")
    (java +: memory) ++ Seq("-cp", classPath, SoakMain.Name) ++ arguments
  }

  /** What the command printed, line by line, and its exit code. */
  private def output(command: Seq[String]): (Seq[String], Int) = {
    val builder = new ProcessBuilder(command.asJava).redirectErrorStream(true)
    // By default every thread may get an arena of the allocator's, which then keeps what was freed.
    builder.environment.put("MALLOC_ARENA_MAX", "2")
    val process = builder.start()
    val reader = new BufferedReader(new InputStreamReader(process.getInputStream))
    val lines =
      try reader.lines.iterator.asScala.toVector
      finally reader.close()
    (lines, process.waitFor())
  }

  /** Runs [[SoakMain]] in a new JVM and returns what it printed last. */
  private def run(heap: String, arguments: String*): String = {
    val (lines, exit) = output(jvm(heap, arguments: _*))
    lines.foreach(info(_))
    assert(exit == 0, lines.mkString("\n"))
    lines.last
  }

  private def keys(count: Int, heap: String): Unit = assert(
    run(heap, "keys", count.toString) == s"$count keys found"
  )

  test("400,000 keys changed in one commit fit a heap of 64 MiB", Nightly) {
    keys(400000, "64m")
  }

  test("10 million keys changed in one commit fit a heap of 1 GiB", Soak) {
    keys(10000000, "1g")
  }

  test("a list and a map of a million entries of one key are written and read in a heap of 64 MiB", Nightly) {
    assert(
      run("64m", "large", "1000000", "100") == "1000000 elements, 1000000 under TTL and 1000000 entries found"
    )
  }

  /**
   * Opens and closes so many backends and returns by how many KiB the process grew after the first fifth.
   * What is resident swings by some 20 MiB (compiled code, the allocator): few backends can only show leaks
   * of 100 KiB each.
   */
  private def growth(backends: Int): Long = run("256m", "backends", backends.toString).toLong

  test("hundreds of backends opened and closed leave no native memory behind", Nightly) {
    if (Files.exists(SoakMain.Status)) assert(growth(500) < 48 * 1024) else cancel("no /proc on this system")
  }

  test("ten thousand backends opened and closed leave no native memory behind", Soak) {
    if (Files.exists(SoakMain.Status)) assert(growth(10000) < 32 * 1024)
    else cancel("no /proc on this system")
  }

  test("a disk that is really full is an error that names the directory, and the commit does not count") {
    val mount = Files.createTempDirectory("pillarbox-full")
    val inNamespace = Seq("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    val script = s"mount -t tmpfs -o size=16m tmpfs $mount && exec \"$$@\""
    try {
      val mayMount = Try(output(inNamespace :+ s"mount -t tmpfs tmpfs $mount")._2).toOption.contains(0)
      if (!mayMount) cancel("no user namespaces on this system, so no small disk to fill")
      val (lines, exit) = output(inNamespace ++ Seq(script, "sh") ++ jvm("256m", "full", mount.toString))
      assert(exit == 0, lines.mkString("\n"))
      val Ended = "version (\\d+): (.*)".r
      lines.last match {
        case Ended(version, error) =>
          assert(
            version.toInt < 100,
            "16 MiB and the write buffers hold no hundred commits of a million bytes"
          )
          Seq("STATE_STORE_FAILED", mount.toString, "No space left").foreach(part =>
            assert(error.contains(part))
          )
        case other => fail(other)
      }
    } finally Files.delete(mount)
  }
}

/** What runs in the JVM of its own. */
object SoakMain {
  val Name: String = getClass.getName.stripSuffix("$")
  val Status: Path = Paths.get("/proc/self/status")

  private final val Threads = 4

  def main(arguments: Array[String]): Unit = {
    val root = TestDisk.newDirectory("pillarbox-soak")
    try
      arguments match {
        case Array("keys", count) => println(keys(root.resolve("db"), count.toLong))
        case Array("large", count, bytes) => println(large(root.resolve("db"), count.toInt, bytes.toInt))
        case Array("full", directory) => println(full(Paths.get(directory).resolve("db")))
        case Array("backends", count) => println(backends(root, count.toInt))
        case other => throw new IllegalArgumentException(s"Unknown soak: ${other.mkString(" ")}")
      }
    finally TestDisk.delete(root)
  }

  private def open(directory: Path): RocksDBKeyedStateBackend[Long] = new RocksDBKeyedStateBackend(
    ScalaSerializers.long,
    new ManualClock,
    RocksDBConfig(directory, memoryLimit = 64L << 20)
  )

  private def keys(directory: Path, count: Long): String = {
    val backend = open(directory)
    try {
      val state = backend.getOrCreate(TestState.value("value", Serializers.ofString))
      var key = 0L
      while (key < count) {
        backend.setCurrentKey(key)
        state.update(s"value of $key")
        key += 1
      }
      progress(s"$count written")
      val summary = backend.commit(OutputStream.nullOutputStream())
      require(summary.entries == count, s"The commit has ${summary.entries} entries")
      progress(s"$count committed")
      key = 0L
      while (key < count) {
        backend.setCurrentKey(key)
        require(state.value() == s"value of $key", s"Key $key has ${state.value()}")
        key += 1
      }
      progress(s"$count read")
      s"$count keys found"
    } finally backend.close()
  }

  /** Writes two lists and a map of one key, larger together than the heap, and reads them. */
  private def large(directory: Path, count: Int, bytes: Int): String = {
    val backend = open(directory)
    try {
      val list = backend.getOrCreate(TestState.list("list", Serializers.ofBytes))
      val read = Some(TestState.ttl(1000000L, update = StateTtl.Update.ON_READ_AND_WRITE))
      val expiring = backend.getOrCreate(TestState.list("expiring", Serializers.ofBytes, read))
      val map = backend.getOrCreate(TestState.map("map", ScalaSerializers.long, Serializers.ofBytes))
      backend.setCurrentKey(7L)
      for (i <- 0 until count) {
        val content = ByteBuffer.allocate(bytes).putInt(i).array
        list.add(content)
        expiring.add(content)
        map.put(i.toLong, content)
        if (i % 100000 == 99999) {
          backend.commit(OutputStream.nullOutputStream()): Unit
          progress(s"${i + 1} written")
        }
      }
      def inOrder(found: Iterator[Array[Byte]]): Int = found.zipWithIndex.count { case (content, i) =>
        require(ByteBuffer.wrap(content).getInt == i, s"Element $i is another one")
        true
      }
      val elements = inOrder(list.get().iterator.asScala)
      progress("list read")
      val alive = inOrder(expiring.get().iterator.asScala)
      progress("list under TTL read")
      val entries = map.iterator.asScala.count { entry =>
        entry.getKey == ByteBuffer.wrap(entry.getValue).getInt
      }
      progress("map read")
      s"$elements elements, $alive under TTL and $entries entries found"
    } finally backend.close()
  }

  private def progress(what: String): Unit = {
    val seconds = ManagementFactory.getRuntimeMXBean.getUptime / 1000
    println(s"$what after $seconds s, resident ${residentKiB() / 1024} MiB")
  }

  /** Commits until the disk is full; the version reached and what the error said. */
  private def full(directory: Path): String = {
    val backend = open(directory)
    try {
      val state = backend.getOrCreate(TestState.value("value", Serializers.ofBytes))
      val random = new java.util.Random(7)
      val content = new Array[Byte](10000)
      def put(key: Int): Try[Unit] = Try {
        random.nextBytes(content)
        backend.setCurrentKey(key.toLong)
        state.update(content)
        if (key % 100 == 99) backend.commit(OutputStream.nullOutputStream()): Unit
      }
      val error =
        Iterator.range(0, 100000).map(put).collectFirst { case Failure(failure) => failure.getMessage }
      s"version ${backend.version}: ${error.getOrElse("no error")}"
    } finally backend.close()
  }

  /** By how many KiB the process grew after the first fifth. */
  private def backends(root: Path, count: Int): Long = {
    useMany(root, 0 until count / 5)
    val settled = residentKiB()
    useMany(root, count / 5 until count)
    residentKiB() - settled
  }

  /** Several at a time, as the tasks of an executor are. */
  private def useMany(root: Path, numbers: Range): Unit = {
    val threads = Executors.newFixedThreadPool(Threads)
    val done = new AtomicInteger(numbers.start)
    val all = numbers.map { i =>
      threads.submit[Unit] { () =>
        use(root.resolve(s"db$i"))
        TestDisk.delete(root.resolve(s"db$i"))
        val count = done.incrementAndGet()
        if (count % 1000 == 0) progress(s"$count backends")
      }
    }
    try all.foreach(_.get())
    finally threads.shutdown()
  }

  /**
   * Goes through every native object that a backend may make: iterators, spills, migrations, checkpoints,
   * commits.
   */
  private def use(directory: Path): Unit = {
    val backend = new RocksDBKeyedStateBackend(
      ScalaSerializers.long,
      new ManualClock,
      RocksDBConfig(directory, memoryLimit = 16L << 20, cacheBytes = 16 << 10)
    )
    try {
      val map = backend.getOrCreate(
        TestState.map("map", ScalaSerializers.long, Serializers.ofString, Some(TestState.ttl(1000000L)))
      )
      for (key <- 0L until 50L) {
        backend.setCurrentKey(key)
        for (i <- 0L until 10L) map.put(i, "some text to fill the cache with")
        map.keys.next(): Unit
      }
      backend.commit(OutputStream.nullOutputStream()): Unit
      backend.checkpoint(directory.resolveSibling(s"${directory.getFileName}-checkpoint"))
    } finally backend.close()
    TestDisk.delete(directory.resolveSibling(s"${directory.getFileName}-checkpoint"))
  }

  private def residentKiB(): Long = {
    System.gc()
    val line = Files.readAllLines(Status).asScala.find(_.startsWith("VmRSS:"))
    line.map(_.replaceAll("[^0-9]", "").toLong).getOrElse(0L)
  }
}
