package io.pillarbox.metered.journal

import java.io.{FileNotFoundException, IOException}

import scala.collection.mutable
import scala.util.Using
import scala.util.control.NonFatal

/**
 * An answer as a segment has it.
 *
 * @param operator the description of the operator that it is for
 * @param offset where it stands in the segment
 * @param call the name of its call, with the values of the key
 * @param writtenMs when it was kept
 */
private[pillarbox] final case class StoredAnswer(
    operator: String,
    offset: Long,
    call: CallKey,
    writtenMs: Long,
    cost: CallCost,
    payload: Array[Byte]
)

/**
 * All answers in a folder, segment by segment, to be read or purged. Others may write to it meanwhile.
 *
 * @param timeMs returns the time by which segments are over
 */
private[pillarbox] final class StoredAnswers(files: JournalFiles, timeMs: () => Long) {
  import SegmentFormat._

  /** Lists the segments that count, without those that tasks and `deleteUnread` delete. */
  @throws[IOException]
  def segments(): Seq[JournalFile] = {
    val (_, counting) = listed()
    counting.filter(file => isName(file.name)).sortBy(_.name)
  }

  /** Deletes the segments that nobody reads any more, and whose answers are still in the files. */
  @throws[IOException]
  def deleteUnread(): Unit = {
    val (unread, _) = listed()
    unread.foreach(file => files.delete(file.name))
  }

  /** Lists the segments that are over, replaced, or sealed under another name; and all other files. */
  private def listed(): (Seq[JournalFile], Seq[JournalFile]) = {
    val now = timeMs()
    val all = files.list()
    val names = all.iterator.map(_.name).toSet
    // Both names are there if a rename ended between its two steps.
    def isSealed(name: String) = sealedName(name) != name && names(sealedName(name))
    all.partition { case file @ JournalFile(name, _, _) =>
      isDoomed(name) || (isName(name) && (isOver(file, now) || isSealed(name)))
    }
  }

  /**
   * Reads the answers of a segment.
   *
   * @throws java.io.FileNotFoundException if it is gone, or has another name since
   */
  @throws[IOException]
  def read(segment: String): SegmentAnswers = {
    val in = files.open(segment)
    try new SegmentAnswers(in, segment)
    catch {
      case e: Throwable =>
        in.close()
        throw e
    }
  }

  /**
   * Returns the descriptions of the operators with answers in a segment.
   *
   * @throws java.io.FileNotFoundException if it is gone, or has another name since
   */
  @throws[IOException]
  def operators(segment: String): Seq[String] = Using.resource(files.open(segment)) { in =>
    val scan = new SegmentScan(in, segment)
    val found = mutable.LinkedHashSet.empty[String]
    while (scan.next()) if (isOperator(scan.buffer, scan.at)) found += descriptionAt(scan.buffer, scan.at)
    found.toSeq
  }

  /**
   * Deletes answers of a segment. When it returns, those are in no file, and the others are in one of another
   * name. If it throws they are all there, the others perhaps twice.
   *
   * A process that writes to the segment goes on in a new one: it sees that the name is gone before it calls
   * an answer kept, and all that it has called so is read here, since the name goes first. Of two that delete
   * from a segment at once one finds it gone, where a rename is one step.
   *
   * @param offsets where the answers stand, in ascending order
   * @throws java.io.FileNotFoundException if it is gone, or has another name since
   */
  @throws[IOException]
  def delete(segment: String, offsets: Iterator[Long]): Unit = {
    val last = sealedName(segment)
    if (last != segment) files.rename(segment, last)
    Using.resource(files.open(last))(in => replace(last, new SegmentScan(in, last), offsets.buffered))
    files.delete(doomedName(last))
  }

  private def newCopy(segment: String): String =
    newName(ttlOf(segment).getOrElse(0L), generationOf(segment) + 1)

  /** Copies what does not stand at one of the `offsets`, and takes the name away. */
  private def replace(
      segment: String,
      from: SegmentScan,
      offsets: collection.BufferedIterator[Long]
  ): Unit = {
    val copied = new SegmentCopy(files, newCopy(segment))
    try {
      while (from.next()) {
        while (offsets.headOption.exists(_ < from.offset)) offsets.next()
        if (!offsets.headOption.contains(from.offset)) copied.take(from)
      }
      copied.finish()
      // If another has replaced it meanwhile this copy may have what that has deleted.
      files.rename(segment, doomedName(segment))
    } catch {
      case e: Throwable =>
        if (e.isInstanceOf[FileNotFoundException] || isThere(segment)) copied.drop()
        throw e
    }
  }

  /** False also if that isn't known: a rename that has failed may have been done. */
  private def isThere(segment: String): Boolean =
    try files.exists(segment)
    catch { case NonFatal(_) => false }
}

/** The answers of a segment, in their order; `close` it in the end. One thread. */
private[pillarbox] final class SegmentAnswers private[journal] (in: JournalInput, name: String)
    extends Iterator[StoredAnswer]
    with AutoCloseable {
  import SegmentFormat._

  private val scan = new SegmentScan(in, name)
  private val operators = mutable.HashMap.empty[CallKey, String]
  private var isThere = advance()

  override def hasNext: Boolean = isThere

  override def next(): StoredAnswer = {
    val (bytes, at) = (scan.buffer, scan.at)
    val operator = operators.getOrElse(
      operatorAt(bytes, at),
      throw new IOException(s"$name has an answer at ${scan.offset} without its operator")
    )
    val cost = CallCost(attemptsAt(bytes, at), usageAt(bytes, at))
    val answer =
      StoredAnswer(
        operator,
        scan.offset,
        callAt(bytes, at),
        timeAt(bytes, at),
        cost,
        payloadAt(bytes, at)
      )
    isThere = advance()
    answer
  }

  /** Moves to the next answer. */
  private def advance(): Boolean = {
    var found = false
    while (!found && scan.next()) {
      found = isAnswer(scan.buffer, scan.at)
      if (isOperator(scan.buffer, scan.at)) {
        val description = descriptionAt(scan.buffer, scan.at)
        val operator = new JournalOperator(description)
        operators(CallKey(operator.high, operator.low)) = description
      }
    }
    found
  }

  override def close(): Unit = in.close()
}

/** A new segment of entries of another one, made with the first answer in it. One thread. */
private final class SegmentCopy(files: JournalFiles, name: String) {
  import SegmentFormat._

  /** Operators whose answers have not come yet, by their ids, and those in the new segment. */
  private val untold = mutable.HashMap.empty[CallKey, Array[Byte]]
  private var out: JournalOutput = _

  def take(from: SegmentScan): Unit = {
    val (bytes, at) = (from.buffer, from.at)
    if (isOperator(bytes, at)) {
      val operator = new JournalOperator(descriptionAt(bytes, at))
      untold(CallKey(operator.high, operator.low)) = entryOf(operator)
    } else {
      if (out == null) {
        out = files.create(name)
        out.write(header, 0, HeaderSize)
      }
      if (isAnswer(bytes, at))
        untold.remove(operatorAt(bytes, at)).foreach(entry => out.write(entry, 0, entry.length))
      out.write(bytes.array, at, from.size)
    }
  }

  def finish(): Unit = if (out != null) {
    out.sync()
    out.close()
  }

  def drop(): Unit = if (out != null) {
    try out.close()
    catch { case NonFatal(_) => () }
    try files.delete(name)
    catch { case NonFatal(_) => () }
  }
}
