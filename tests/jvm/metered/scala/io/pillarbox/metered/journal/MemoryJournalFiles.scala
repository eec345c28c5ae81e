package io.pillarbox.metered.journal

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

  /** What is done when a file is closed, before others see it. */
  var onClose: () => Unit = () => ()

  /** What is done when a file is renamed, before and after. */
  var onRename, onRenamed: () => Unit = () => ()

  /** False if a list tells the length of the header of all files, as HDFS does of those that are being written. */
  var tellsLengths = true

  /** What is done once when files have been listed, before one is opened, before one is created. */
  val onListed, onOpen, onCreate = new Once

  /** True if files are there, and can't be read. */
  var isUnreachable = false

  def contents: Map[String, Array[Byte]] = synchronized {
    files.iterator.map { case (name, content) => name -> content.bytes }.toMap
  }

  def put(name: String, bytes: Array[Byte]): Unit = synchronized {
    files(name) = new Content(bytes, clock())
  }

  override def list(): Seq[JournalFile] = {
    val found = synchronized(files.iterator.map { case (name, content) =>
      JournalFile(
        name,
        if (tellsLengths) content.bytes.length.toLong else SegmentFormat.HeaderSize.toLong,
        content.writtenMs
      )
    }.toList)
    onListed.run()
    found
  }

  private def contentOf(name: String): Content =
    synchronized(files.getOrElse(name, throw new FileNotFoundException(name)))

  override def open(name: String): JournalInput = {
    onOpen.run()
    val content = contentOf(name)
    new JournalInput {
      override def read(position: Long, into: Array[Byte], offset: Int, length: Int): Int = {
        if (isUnreachable) throw new IOException("unreachable")
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
    onCreate.run()
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

      override def close(): Unit = {
        onClose()
        if (!persists) show()
      }
    }
  }

  override def exists(name: String): Boolean = synchronized(files.contains(name))

  override def rename(from: String, to: String): Unit = synchronized {
    onRename()
    if (!persists && files.contains(to)) throw new IOException(s"$to is there")
    files(to) = contentOf(from)
    files.remove(from)
    onRenamed()
  }

  override def delete(name: String): Unit = synchronized(files.remove(name)): Unit
}

/** A folder that does as another one. */
abstract class DelegatingJournalFiles(files: JournalFiles) extends JournalFiles {
  override def list(): Seq[JournalFile] = files.list()
  override def open(name: String): JournalInput = files.open(name)
  override def create(name: String): JournalOutput = files.create(name)
  override def exists(name: String): Boolean = files.exists(name)
  override def rename(from: String, to: String): Unit = files.rename(from, to)
  override def delete(name: String): Unit = files.delete(name)
}

/** What is done at the next event, and not at those after it. */
final class Once {
  private var todo = Option.empty[() => Unit]

  def apply(body: => Unit): Unit = todo = Some(() => body)

  def run(): Unit = {
    val now = todo
    todo = None
    now.foreach(_())
  }
}
