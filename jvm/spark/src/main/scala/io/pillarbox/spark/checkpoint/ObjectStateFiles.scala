package io.pillarbox.spark.checkpoint

import java.io.{FileNotFoundException, InputStream, OutputStream}

import org.apache.hadoop.fs.{Abortable, FSDataOutputStream, FileSystem, Path}

/**
 * An object store whose streams can be aborted: a file is written under its final name, and appears, or is
 * replaced, when its stream is closed. Spark's own manager copies it from another name, which takes several
 * more requests and, if there is a file of that name, leaves none for a moment.
 *
 * No folders are made, as there are none.
 */
private final class ObjectStateFiles(folder: Path, fs: FileSystem) extends StateFiles {

  override def list(): Seq[String] =
    try fs.listStatus(folder).toSeq.filterNot(_.isDirectory).map(_.getPath.getName)
    catch { case _: FileNotFoundException => Nil }

  override def exists(name: String): Boolean = fs.exists(path(name))

  override def open(name: String): InputStream = fs.open(path(name))

  /** No request is made before the file is whole, or large. */
  override def begin(name: String): StateFiles.Unfinished = StateFiles.writtenAtEnd(put(name, _))

  private def put(name: String, content: OutputStream => Unit): Long = {
    val out = create(name)
    var isOpen = true
    try {
      content(out)
      val size = out.getPos
      isOpen = false
      out.close()
      size
    } catch {
      case e: Throwable =>
        if (isOpen) abort(out, e)
        throw e
    }
  }

  /** Does not look first what is there, if the store can do so. */
  private def create(name: String): FSDataOutputStream =
    fs.createFile(path(name)).overwrite(true).recursive().opt("fs.s3a.create.performance", true).build()

  /** Does not close the stream, as that would make the file. */
  private def abort(out: FSDataOutputStream, cause: Throwable): Unit =
    try (out: Abortable).abort(): Unit
    catch { case e: Exception => cause.addSuppressed(e) }

  override def delete(name: String): Unit = fs.delete(path(name), false): Unit

  private def path(name: String) = new Path(folder, name)
}
