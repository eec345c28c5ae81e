package io.pillarbox.async.journal

import java.io.{FileNotFoundException, IOException}

import scala.collection.mutable

/**
 * A folder in memory, as on a store that shows a file when it is closed, unless `persists`. Who has a file
 * open goes on with it when it has another name, or was deleted. Thread-safe.
 */
final class MemoryJournalFiles(persists: Boolean) extends JournalFiles {
  private final class Content(var bytes: Array[Byte], var writtenMs: Long)

  private val files = mutable.TreeMap.empty[String, Content]

  /** The time that files get, in ms. */
  var clock: () => Long = () => 0L

  /** Bytes that can still be written; a write that needs more writes what fits, and throws. */
  var room: Long = Long.MaxValue
  var isReadOnly = false

  /** What is done when written bytes are persisted. */
  var onPersist: () => Unit = () => ()

  def contents: Map[String, Array[Byte]] = synchronized {
    files.iterator.map { case (name, content) => name -> content.bytes }.toMap
  }

  def put(name: String, bytes: Array[Byte]): Unit = synchronized {
    files(name) = new Content(bytes, clock())
  }

  override def list(): Seq[JournalFile] = synchronized {
    files.iterator.map { case (name, content) =>
      JournalFile(name, content.bytes.length.toLong, content.writtenMs)
    }.toSeq
  }

  private def contentOf(name: String): Content =
    synchronized(files.getOrElse(name, throw new FileNotFoundException(name)))

  override def open(name: String): JournalInput = {
    val content = contentOf(name)
    new JournalInput {
      override def read(position: Long, into: Array[Byte], offset: Int, length: Int): Int = {
        val bytes = MemoryJournalFiles.this.synchronized(content.bytes)
        val count = math.min(length.toLong, bytes.length - position).toInt
        if (count > 0) System.arraycopy(bytes, position.toInt, into, offset, count)
        count
      }
      override def close(): Unit = ()
    }
  }

  override def create(name: String): JournalOutput = {
    if (isReadOnly) throw new IOException("read-only")
    val content = new Content(Array.emptyByteArray, clock())
    def show(): Unit = synchronized(files(name) = content)
    if (persists) show()
    new JournalOutput {
      override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
        val fits = math.min(length.toLong, room).toInt
        room -= fits
        MemoryJournalFiles.this.synchronized {
          content.bytes = content.bytes ++ bytes.slice(offset, offset + fits)
          content.writtenMs = clock()
        }
        if (fits < length) throw new IOException("no room")
      }

      override def persist(): Boolean = {
        onPersist()
        persists
      }

      override def sync(): Unit = ()

      override def close(): Unit = if (!persists) show()
    }
  }

  override def exists(name: String): Boolean = synchronized(files.contains(name))

  override def rename(from: String, to: String): Unit = synchronized {
    files(to) = contentOf(from)
    files.remove(from): Unit
  }

  override def delete(name: String): Unit = synchronized(files.remove(name)): Unit
}
