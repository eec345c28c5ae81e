package io.pillarbox.async.journal

import java.io.{ByteArrayOutputStream, FileNotFoundException, IOException}

import scala.collection.mutable

/**
 * A folder in memory, as on a store that shows a file when it is closed, unless `persists`. Thread-safe.
 */
final class MemoryJournalFiles(persists: Boolean) extends JournalFiles {
  private val files = mutable.TreeMap.empty[String, Array[Byte]]
  private val times = mutable.HashMap.empty[String, Long]

  /** The time that files get, in ms. */
  var clock: () => Long = () => 0L

  /** Bytes that can still be written; a write that needs more writes what fits, and throws. */
  var room: Long = Long.MaxValue
  var isReadOnly = false

  def contents: Map[String, Array[Byte]] = synchronized(files.toMap)

  def put(name: String, bytes: Array[Byte]): Unit = synchronized {
    files(name) = bytes
    times(name) = clock()
  }

  override def list(): Seq[JournalFile] = synchronized {
    files.iterator.map { case (name, bytes) => JournalFile(name, bytes.length.toLong, times(name)) }.toSeq
  }

  override def open(name: String): JournalInput = {
    if (!contents.contains(name)) throw new FileNotFoundException(name)
    new JournalInput {
      override def read(position: Long, into: Array[Byte], offset: Int, length: Int): Int = {
        val bytes = contents.getOrElse(name, throw new FileNotFoundException(name))
        val count = math.min(length.toLong, bytes.length - position).toInt
        if (count > 0) System.arraycopy(bytes, position.toInt, into, offset, count)
        count
      }
      override def close(): Unit = ()
    }
  }

  override def create(name: String): JournalOutput = {
    if (isReadOnly) throw new IOException("read-only")
    if (persists) put(name, Array.emptyByteArray)
    new JournalOutput {
      private val written = new ByteArrayOutputStream

      override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
        val fits = math.min(length.toLong, room).toInt
        room -= fits
        written.write(bytes, offset, fits)
        if (persists) put(name, written.toByteArray)
        if (fits < length) throw new IOException("no room")
      }

      override def persist(): Boolean = persists

      override def close(): Unit = if (!persists) put(name, written.toByteArray)
    }
  }

  override def delete(name: String): Unit = synchronized(files.remove(name)): Unit
}
