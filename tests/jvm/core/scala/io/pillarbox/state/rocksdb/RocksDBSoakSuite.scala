package io.pillarbox.state.rocksdb

import java.io.{BufferedReader, InputStreamReader, OutputStream}
import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._

import io.pillarbox.state._
import io.pillarbox.state.serialization.Serializers
import io.pillarbox.tags.Soak
import org.scalatest.funsuite.AnyFunSuite

/** Memory, measured in JVMs of their own: each test has a small form for every run and a long one. */
class RocksDBSoakSuite extends AnyFunSuite {

  /** Runs [[SoakMain]] in a new JVM and returns what it printed last. */
  private def run(heap: String, arguments: String*): String = {
    val java = Paths.get(System.getProperty("java.home"), "bin", "java").toString
    val command =
      Seq(java, s"-Xmx$heap", "-XX:+UseSerialGC", "-cp", System.getProperty("java.class.path"), SoakMain.Name)
    val process = new ProcessBuilder((command ++ arguments).asJava).redirectErrorStream(true).start()
    val reader = new BufferedReader(new InputStreamReader(process.getInputStream))
    val lines =
      try reader.lines.iterator.asScala.toVector
      finally reader.close()
    assert(process.waitFor() == 0, lines.mkString("\n"))
    lines.last
  }

  private def keys(count: Int, heap: String): Unit = assert(
    run(heap, "keys", count.toString) == s"$count keys found"
  )

  test("400,000 keys changed in one commit fit a heap of 64 MiB") {
    keys(400000, "64m")
  }

  test("10 million keys changed in one commit fit a heap of 1 GiB", Soak) {
    keys(10000000, "1g")
  }

  /** Opens and closes so many backends and returns by how many KiB the process grew after the first fifth. */
  private def growth(backends: Int): Long = run("256m", "backends", backends.toString).toLong

  test("a hundred backends opened and closed leave no native memory behind") {
    if (Files.exists(SoakMain.Status)) assert(growth(125) < 48 * 1024) else cancel("no /proc on this system")
  }

  test("ten thousand backends opened and closed leave no native memory behind", Soak) {
    if (Files.exists(SoakMain.Status)) assert(growth(10000) < 64 * 1024)
    else cancel("no /proc on this system")
  }
}

/** What runs in the JVM of its own. */
object SoakMain {
  val Name: String = getClass.getName.stripSuffix("$")
  val Status: Path = Paths.get("/proc/self/status")

  def main(arguments: Array[String]): Unit = {
    val root = Files.createTempDirectory("pillarbox-soak")
    try
      arguments match {
        case Array("keys", count) => println(keys(root.resolve("db"), count.toLong))
        case Array("backends", count) => println(backends(root, count.toInt))
        case other => throw new IllegalArgumentException(s"Unknown soak: ${other.mkString(" ")}")
      }
    finally delete(root)
  }

  private def open(directory: Path): RocksDBKeyedStateBackend[Long] = new RocksDBKeyedStateBackend(
    Serializers.long,
    128,
    KeyGroupRange(0, 127),
    StateClock.System,
    RocksDBConfig(directory, memoryLimit = 64L << 20)
  )

  private def keys(directory: Path, count: Long): String = {
    val backend = open(directory)
    try {
      val state = backend.getOrCreate(ValueStateDescriptor("value", Serializers.string))
      var key = 0L
      while (key < count) {
        backend.setCurrentKey(key)
        state.update(s"value of $key")
        key += 1
      }
      System.err.println(s"${Files.exists(directory)} ${System.nanoTime() / 1000000} written")
      val summary = backend.commit(OutputStream.nullOutputStream())
      require(summary.entries == count, s"The commit has ${summary.entries} entries")
      System.err.println(s"${System.nanoTime() / 1000000} committed")
      key = 0L
      while (key < count) {
        backend.setCurrentKey(key)
        require(state.value() == s"value of $key", s"Key $key has ${state.value()}")
        key += 1
      }
      System.err.println(s"${System.nanoTime() / 1000000} read")
      s"$count keys found"
    } finally backend.close()
  }

  private def backends(root: Path, count: Int): Long = {
    var settled = 0L
    for (i <- 0 until count) {
      use(root.resolve(s"db$i"))
      delete(root.resolve(s"db$i"))
      if (i == count / 5) settled = residentKiB()
    }
    residentKiB() - settled
  }

  /** Goes through every native object that a backend may make: iterators, spills, migrations, checkpoints, commits. */
  private def use(directory: Path): Unit = {
    val backend = new RocksDBKeyedStateBackend(
      Serializers.long,
      128,
      KeyGroupRange(0, 127),
      StateClock.System,
      RocksDBConfig(directory, memoryLimit = 16L << 20, cacheBytes = 16 << 10, statistics = true)
    )
    try {
      val map = backend.getOrCreate(
        MapStateDescriptor("map", Serializers.long, Serializers.string, Some(StateTtlConfig(1000000L)))
      )
      for (key <- 0L until 50L) {
        backend.setCurrentKey(key)
        for (i <- 0L until 10L) map.put(i, "some text to fill the cache with")
        map.keys.next(): Unit
      }
      backend.commit(OutputStream.nullOutputStream()): Unit
      backend.checkpoint(directory.resolveSibling(s"${directory.getFileName}-checkpoint"))
    } finally backend.close()
    delete(directory.resolveSibling(s"${directory.getFileName}-checkpoint"))
  }

  private def residentKiB(): Long = {
    System.gc()
    val line = Files.readAllLines(Status).asScala.find(_.startsWith("VmRSS:"))
    line.map(_.replaceAll("[^0-9]", "").toLong).getOrElse(0L)
  }

  private def delete(directory: Path): Unit = {
    val paths = Files.walk(directory)
    try paths.sorted(java.util.Comparator.reverseOrder[Path]).forEach(path => Files.delete(path))
    finally paths.close()
  }
}
