package io.pillarbox.metered.journal

import java.io.IOException

/** The folder of a journal: files that are written once, from the start to the end. Thread-safe. */
private[pillarbox] trait JournalFiles {

  /** Lists all files in it; none if it is not there. */
  @throws[IOException]
  def list(): Seq[JournalFile]

  @throws[IOException]
  def open(name: String): JournalInput

  /** Creates a file, in a folder that is made if it is not there. */
  @throws[IOException]
  def create(name: String): JournalOutput

  @throws[IOException]
  def exists(name: String): Boolean

  /**
   * Gives a file another name, under which its writer goes on. Where files can only be seen when they are
   * closed this may copy it.
   *
   * @throws java.io.FileNotFoundException if it is not there
   */
  @throws[IOException]
  def rename(from: String, to: String): Unit

  /** Deletes a file. No-op if it is not there. */
  @throws[IOException]
  def delete(name: String): Unit
}

/**
 * @param length its bytes; perhaps too few for a file that is being written
 * @param writtenMs the time when it was made, or written to since
 */
private[pillarbox] final case class JournalFile(name: String, length: Long, writtenMs: Long)

/** A file that is read, by one thread at a time. */
private[pillarbox] trait JournalInput extends AutoCloseable {

  /** Reads at most `length` bytes that begin at `position`; 0 or less if the file ends there. */
  @throws[IOException]
  def read(position: Long, into: Array[Byte], offset: Int, length: Int): Int
}

/** A file that is written, by one thread at a time. After a method has thrown, only `close` may be called. */
private[pillarbox] trait JournalOutput extends AutoCloseable {

  @throws[IOException]
  def write(bytes: Array[Byte], offset: Int, length: Int): Unit

  /** Makes the written bytes outlive this process; false if that is only possible by `close`. */
  @throws[IOException]
  def persist(): Boolean

  /** Makes the written bytes outlive this machine, as far as they don't by `persist` or `close`. */
  @throws[IOException]
  def sync(): Unit
}
