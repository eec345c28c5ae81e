package io.pillarbox.testing

import java.nio.file.{Files, Path, Paths}

/**
 * Where databases of tests go: into memory if the system has such a disk, since syncing real ones is most of
 * a test's time.
 */
object TestDisk {
  private val shared = Paths.get("/dev/shm")

  private val root: Path =
    if (Files.isWritable(shared)) shared else Paths.get(System.getProperty("java.io.tmpdir"))

  /** A new directory, which the caller deletes. */
  def newDirectory(prefix: String): Path = Files.createTempDirectory(root, prefix)

  /** Deletes a directory and all in it. */
  def delete(directory: Path): Unit = {
    val paths = Files.walk(directory)
    try paths.sorted(java.util.Comparator.reverseOrder[Path]).forEach(path => Files.delete(path))
    finally paths.close()
  }
}
