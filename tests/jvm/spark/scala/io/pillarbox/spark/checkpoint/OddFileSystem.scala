package io.pillarbox.spark.checkpoint

import java.io.{ByteArrayOutputStream, IOException, InterruptedIOException, OutputStream}
import java.net.URI
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{ConcurrentHashMap, CountDownLatch, TimeUnit}

import scala.annotation.unused
import scala.jdk.CollectionConverters._
import scala.util.Random

import io.pillarbox.files.LocalFilesInProcess
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/** The local file system under a scheme of tests, which does what the scheme's [[Oddity]] says. */
class OddFileSystem extends LocalFilesInProcess.Raw with LeaseRecoverable {
  // The parent's constructor asks for the URI.
  private var scheme = "file"
  private def oddity: Oddity = OddFileSystem.Oddities.getOrElse(scheme, Oddity.None)

  override def initialize(uri: URI, conf: Configuration): Unit = {
    scheme = uri.getScheme
    super.initialize(uri, conf)
  }

  override def getUri: URI = URI.create(s"${Option(scheme).getOrElse("file")}:///")

  override def getScheme: String = scheme

  override def create(
      path: Path,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = create(path, null, overwrite, bufferSize, replication, blockSize, progress)

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream =
    odd("create", path)(
      oddity.created(() =>
        super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress)
      )
    )

  override def open(path: Path, bufferSize: Int): FSDataInputStream =
    odd("open", path)(super.open(path, bufferSize))

  override def rename(from: Path, to: Path): Boolean =
    odd("rename", to)((oddity.replaces || !exists(to)) && super.rename(from, to))

  override def delete(path: Path, recursive: Boolean): Boolean =
    odd("delete", path)(super.delete(path, recursive))

  override def listStatus(path: Path): Array[FileStatus] = odd("list", path)(super.listStatus(path))

  override def mkdirs(path: Path): Boolean = odd("mkdirs", path)(super.mkdirs(path))

  override def mkdirs(path: Path, permission: FsPermission): Boolean =
    odd("mkdirs", path)(super.mkdirs(path, permission))

  override def exists(path: Path): Boolean = odd("exists", path)(super.exists(path))

  override def getFileStatus(path: Path): FileStatus = odd("status", path)(super.getFileStatus(path))

  override def hasPathCapability(path: Path, capability: String): Boolean =
    oddity.capabilities(capability) || super.hasPathCapability(path, capability)

  override def recoverLease(file: Path): Boolean = {
    LeasedFiles.recoveries += 1
    false
  }

  override def isFileClosed(file: Path): Boolean = {
    LeasedFiles.leftOpen -= 1
    LeasedFiles.leftOpen <= 0
  }

  /** The local file system asks itself to do one operation by others, which are nothing odd. */
  private def odd[A](operation: String, path: Path)(body: => A): A =
    if (OddFileSystem.isInside.get) body
    else
      oddity.around(operation, path) {
        OddFileSystem.isInside.set(true)
        try body
        finally OddFileSystem.isInside.set(false)
      }
}

object OddFileSystem {
  private val isInside = ThreadLocal.withInitial[Boolean](() => false)

  private val Oddities = Map(
    "flaky" -> FlakyFiles,
    "counting" -> CountingFiles,
    "held" -> HeldFiles,
    "store" -> StoreFiles,
    "abortable" -> AbortableFiles,
    "closing" -> new HoldingFiles(canFlush = false),
    "flushing" -> new HoldingFiles(canFlush = true),
    "leased" -> LeasedFiles
  )

  /** Makes it the file system of a scheme. */
  def install(scheme: String, conf: Configuration): Unit = {
    conf.set(s"fs.$scheme.impl", classOf[OddFileSystem].getName)
    conf.setBoolean(s"fs.$scheme.impl.disable.cache", true)
  }
}

/** What a scheme does otherwise than the local file system. */
trait Oddity {

  /** Does an operation on a path, which is the target if it is a rename. */
  def around[A](@unused operation: String, @unused path: Path)(body: => A): A = body

  /** The stream to a file, which `make` creates. */
  def created(make: () => FSDataOutputStream): FSDataOutputStream = make()

  /** What a rename does where there is a file: replaces it, as those of stores do, or nothing, as HDFS. */
  @volatile var replaces = true

  def capabilities: Set[String] = Set.empty
}

object Oddity {
  object None extends Oddity
}

/** `flaky`: create, rename and list fail at random in the folders of state, and where `failing` says so, open too. */
object FlakyFiles extends Oddity {
  private val random = new Random(3)
  val failures = new AtomicInteger

  /** Of 100 operations, so many fail. */
  @volatile var percent = 0

  /** Paths whose operations all fail. */
  @volatile var failing: Path => Boolean = _ => false

  /** Makes what is thrown from a text. */
  @volatile var error: String => IOException = new IOException(_)

  /** Told of each folder that is listed. */
  @volatile var listed: Path => Unit = _ => ()

  override def around[A](operation: String, path: Path)(body: => A): A = {
    if (operation == "list") listed(path)
    operation match {
      case "open" => if (failing(path)) fail(operation, path)
      case "create" | "rename" | "list" => perhapsFail(operation, path)
      case _ => ()
    }
    val done = body
    // As bad: it was done, and nobody is told.
    if (operation == "rename") perhapsFail("rename after the fact", path)
    done
  }

  private def perhapsFail(what: String, path: Path): Unit =
    if (failing(path) || path.toString.contains("/state/") && synchronized(random.nextInt(100)) < percent)
      fail(what, path)

  private def fail(what: String, path: Path): Unit = {
    failures.incrementAndGet()
    throw error(s"flaky $what of $path")
  }
}

/** `counting`: counts the operations in the folders of state. */
object CountingFiles extends Oddity {
  private val counts = new ConcurrentHashMap[String, AtomicInteger]

  /** The operations since the last time, by their kinds. */
  def take(): Map[String, Int] =
    counts.asScala.map { case (kind, count) => kind -> count.getAndSet(0) }.filter(_._2 > 0).toMap

  override def around[A](operation: String, path: Path)(body: => A): A = {
    if (path.toString.contains("/state/"))
      counts.computeIfAbsent(operation, _ => new AtomicInteger).incrementAndGet()
    body
  }
}

/**
 * `held`: a test holds one writer up while it renames its file, and lets it go on later: an executor that
 * everybody has given up.
 */
object HeldFiles extends Oddity {
  @volatile private var wanted: Path => Boolean = _ => false
  @volatile private var holder: Thread = _
  @volatile private var held, mayGo, over = new CountDownLatch(1)
  replaces = false

  /** The first writer that renames its file to such a path is held up. */
  def hold(path: Path => Boolean): Unit = {
    holder = null
    held = new CountDownLatch(1)
    mayGo = new CountDownLatch(1)
    over = new CountDownLatch(1)
    wanted = path
  }

  def awaitHeld(): Unit = assert(held.await(60, TimeUnit.SECONDS), "nobody came")

  /** Returns when the writer has its file where it is to be, or has died on the way. */
  def letGo(): Unit = {
    mayGo.countDown()
    assert(over.await(60, TimeUnit.SECONDS), "the writer does not go on")
  }

  override def around[A](operation: String, path: Path)(body: => A): A = {
    // One that deletes its unfinished file gives up.
    if (operation == "delete" && path.getName.endsWith(".tmp")) ends()
    if (operation == "rename") meet(path)
    val done = body
    if (operation == "rename" && done == true) ends()
    done
  }

  private def meet(to: Path): Unit = synchronized {
    val isFirst = holder == null && wanted(to)
    if (isFirst) {
      holder = Thread.currentThread
      wanted = _ => false
    }
    isFirst
  } match {
    case true =>
      held.countDown()
      awaitWhateverComes()
    case false if Thread.currentThread eq holder =>
      // It has renamed once and tries again: its process dies in between.
      ends()
      throw new IOException("the process was killed")
    case false => ()
  }

  private def ends(): Unit = if (Thread.currentThread eq holder) {
    holder = null
    over.countDown()
  }

  /** Nobody reaches it, so it is not killed either. */
  private def awaitWhateverComes(): Unit =
    try mayGo.await()
    catch { case _: InterruptedException => awaitWhateverComes() }
}

/** `store`: a file is there when it is closed, until there is no room. */
object StoreFiles extends Oddity {
  @volatile var isFull = false

  override def created(make: () => FSDataOutputStream): FSDataOutputStream =
    new FSDataOutputStream(
      new WhenClosed(make) {
        override def close(): Unit = {
          if (isFull) throw new IOException("No space left on device")
          super.close()
        }
      },
      null
    )
}

/** `abortable`: a file is there when its stream is closed, as with S3A, and takes the place of what is there. */
object AbortableFiles extends Oddity {
  override def capabilities: Set[String] = Set(CommonPathCapabilities.ABORTABLE_STREAM)

  override def around[A](operation: String, path: Path)(body: => A): A =
    if (operation == "rename") throw new IOException("a copy of the whole file") else body

  override def created(make: () => FSDataOutputStream): FSDataOutputStream =
    new FSDataOutputStream(
      new WhenClosed(make) with Abortable {
        override def abort(): Abortable.AbortableResult = new Abortable.AbortableResult {
          override def alreadyClosed(): Boolean = false
          override def anyCleanupException(): IOException = null
        }
      },
      null
    )
}

/** `flushing` and `closing`: what is written is held back until it is flushed, which only one of them can, or closed. */
final class HoldingFiles(canFlush: Boolean) extends Oddity {
  override def created(make: () => FSDataOutputStream): FSDataOutputStream = {
    val file = make()
    new FSDataOutputStream(
      new WhenClosed(() => file) with Syncable with StreamCapabilities {
        override def hasCapability(capability: String): Boolean = canFlush && capability == "hflush"
        override def hsync(): Unit = hflush()

        override def hflush(): Unit = {
          writeTo(file)
          file.flush()
          reset()
        }

        /** As an upload, which an interrupt ends. */
        override def close(): Unit = {
          if (!canFlush && Thread.interrupted()) throw new InterruptedIOException
          super.close()
        }
      },
      null
    )
  }
}

/** `leased`: HDFS, whose files may be left open by a writer that is gone. */
object LeasedFiles extends Oddity {

  /** How often it must be asked whether a file is closed before it is. */
  @volatile var leftOpen = 0

  /** How often files were asked to be closed. */
  @volatile var recoveries = 0

  /** How often a file that is not closed can't be opened. */
  @volatile var failures = 0
  @volatile private var problem = new IOException

  def leaveOpen(polls: Int, reason: IOException): Unit = {
    leftOpen = polls
    recoveries = 0
    failures = Int.MaxValue
    problem = reason
  }

  override def around[A](operation: String, path: Path)(body: => A): A =
    if (operation == "open" && leftOpen > 0 && failures > 0) {
      failures -= 1
      throw problem
    } else body
}

/** Holds what is written, until it is closed. */
private class WhenClosed(make: () => OutputStream) extends ByteArrayOutputStream {
  override def close(): Unit = {
    val file = make()
    try writeTo(file)
    finally file.close()
  }
}
