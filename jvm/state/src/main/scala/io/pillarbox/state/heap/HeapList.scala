package io.pillarbox.state.heap

import java.util

/**
 * The elements of one key's list, in order, each with its number and timestamp (0 without TTL). Not
 * thread-safe. An `ArrayList` would take an object for the three, and moves all that lies behind a removed
 * element.
 *
 * Elements leave at the front by moving an index, and in the middle by leaving a hole (null), so a removal
 * never moves the others.
 *
 * @param first the number of the first element that is added
 */
private[heap] final class HeapList(first: Long) {
  import HeapList._

  private var elements = new Array[AnyRef](Initial)

  /** Null as long as the numbers are consecutive (none was removed): then `firstNumber` + position. */
  private var numbers: Array[Long] = null
  private var firstNumber = 0L

  /** Null as long as all timestamps are the same (added in one micro-batch): then `commonTimestamp`. */
  private var timestamps: Array[Long] = null
  private var commonTimestamp = 0L
  private var begin = 0
  private var holes = 0

  /** No timestamp is below that of an element before it. */
  private var isMonotone = true

  /** The bound of positions, which begin at [[start]]. */
  var end = 0

  /** Changes when a removal makes positions meaningless. */
  var changes = 0

  /** Null as long as no read has renewed the list and no commit must write elements again. */
  private var renewals: ListRenewals = null
  private var next = first

  /** How many numbers were given since the last commit. */
  private var uncommitted = 0

  /** The number of the next element: no element has had it. */
  def nextNumber: Long = next

  /** The last commit has the elements with a lower number. */
  def committedBelow: Long = next - uncommitted

  def start: Int = begin

  def size: Int = end - begin - holes

  def isEmpty: Boolean = size == 0

  /** The first position from `from` on that is no hole; [[end]] if there is none. */
  def firstElement(from: Int): Int = {
    var at = from
    if (holes > 0) while (at < end && elements(at) == null) at += 1
    at
  }

  /** The element, or null for a hole. */
  def element(at: Int): AnyRef = elements(at)

  def number(at: Int): Long = if (numbers == null) firstNumber + at else numbers(at)

  def timestamp(at: Int): Long =
    if (renewals != null && number(at) < renewals.below) math.max(ownTimestamp(at), renewals.time)
    else ownTimestamp(at)

  /**
   * The last read under ON_READ_AND_WRITE, which is the least timestamp of elements below [[accessedBelow]].
   */
  def accessTime: Long = if (renewals == null) Long.MinValue else renewals.time

  def accessedBelow: Long = if (renewals == null) Long.MinValue else renewals.below

  def accessTimeChanged: Boolean = renewals != null && renewals.changed

  /** True if the last commit has a record of the access time. */
  def accessTimeCommitted: Boolean = renewals != null && renewals.committed

  /** The next commit writes elements from this number on, though their number may be in the last one. */
  def rewriteFrom: Long = if (renewals == null) Long.MaxValue else renewals.rewriteFrom

  def rewriteFrom_=(number: Long): Unit = ownRenewals.rewriteFrom = number

  def ownRenewals: ListRenewals = {
    if (renewals == null) renewals = new ListRenewals
    renewals
  }

  /** Its own timestamp, not counting reads of the list. */
  def ownTimestamp(at: Int): Long = if (timestamps == null) commonTimestamp else timestamps(at)

  /** A lower bound of all timestamps, exact for the first element. */
  def earliest: Long =
    if (begin == end) Long.MaxValue
    else if (isMonotone) timestamp(begin)
    else {
      var least = Long.MaxValue
      var i = begin
      while (i < end) {
        if (elements(i) != null && timestamp(i) < least) least = timestamp(i)
        i += 1
      }
      least
    }

  def add(element: AnyRef, timestamp: Long): Unit = {
    if (end == elements.length) makeRoom()
    setLastTimestamp(timestamp)
    add(element)
  }

  /** Adds an element to a list without TTL. */
  def add(element: AnyRef): Unit = {
    if (end == elements.length) makeRoom()
    elements(end) = element
    setNumber(next)
    end += 1
    changes += 1
    next += 1
    uncommitted += 1
  }

  def setTimestamp(at: Int, timestamp: Long): Unit = {
    if (timestamps == null) spellTimestamps()
    timestamps(at) = timestamp
    isMonotone = isMonotone && (at == begin || this.timestamp(at - 1) <= this.timestamp(at)) &&
      (at + 1 == end || this.timestamp(at) <= this.timestamp(at + 1))
  }

  /** Raises all elements to `time`, at which they were read, and which is not before the last such time. */
  def accessed(time: Long): Unit = {
    ownRenewals.time = time
    ownRenewals.below = if (begin == end) Long.MinValue else number(end - 1) + 1
    ownRenewals.changed = true
  }

  def remove(at: Int): Unit = {
    elements(at) = null
    holes += 1
    changes += 1
    dropHolesAtFront()
  }

  /**
   * Calls `action` for each run of consecutive elements with a number below `limit`: its first number and its
   * length.
   */
  def forEachRunBelow(limit: Long)(action: (Long, Int) => Unit): Unit = {
    val until = if (begin == end) end else firstFrom(limit)
    if (numbers == null && holes == 0) {
      if (until > begin) action(firstNumber + begin, until - begin)
    } else {
      var i = begin
      while (i < until) {
        if (elements(i) != null) action(number(i), 1)
        i += 1
      }
    }
  }

  /**
   * Calls `action` for each expired element, first to last; it may remove it.
   *
   * If timestamps don't go down along the list, only the expired ones are looked at.
   */
  def forEachUpTo(limit: Long)(action: Int => Unit): Unit = {
    var i = begin
    while (i < end && (!isMonotone || elements(i) == null || timestamp(i) <= limit)) {
      if (elements(i) != null && timestamp(i) <= limit) action(i)
      i += 1
    }
  }

  /** The first position whose element's number is not below `number`. */
  def firstFrom(number: Long): Int =
    if (numbers == null) {
      if (number <= firstNumber + begin) begin
      else if (number >= firstNumber + end) end
      else (number - firstNumber).toInt
    } else {
      val found = util.Arrays.binarySearch(numbers, begin, end, number)
      if (found >= 0) found else -found - 1
    }

  /** Tells that the last commit has all changes. */
  def committed(): Unit = {
    uncommitted = 0
    if (renewals != null) {
      renewals.rewriteFrom = Long.MaxValue
      renewals.committed = renewals.committed || renewals.changed
      renewals.changed = false
    }
  }

  /** Tells that elements up to this number were there: for records that are replayed. */
  def skipTo(number: Long): Unit = next = math.max(next, number)

  /** [[add]], or replacement of the element that has this number: for records that are replayed in order. */
  def put(element: AnyRef, number: Long, timestamp: Long): Unit = {
    val at = firstFrom(number)
    if (at == end) {
      val behind = next
      next = number
      add(element, timestamp)
      skipTo(behind)
      uncommitted = 0
    } else if (this.number(at) == number && elements(at) != null) {
      elements(at) = element
      if (ownTimestamp(at) != timestamp) setTimestamp(at, timestamp)
    } else
      throw new IndexOutOfBoundsException(
        s"Element $number of a list comes behind element ${this.number(end - 1)}"
      )
  }

  /** Sets the number of the element that comes to stand at [[end]]. */
  private def setNumber(number: Long): Unit =
    if (numbers != null) numbers(end) = number
    else if (begin == end) firstNumber = number - end
    else if (number != firstNumber + end) {
      spellNumbers()
      numbers(end) = number
    }

  /** Sets the timestamp of the element that comes to stand at [[end]]. */
  private def setLastTimestamp(timestamp: Long): Unit = {
    if (end > begin && timestamp < this.timestamp(end - 1)) isMonotone = false
    if (timestamps != null) timestamps(end) = timestamp
    else if (begin == end) commonTimestamp = timestamp
    else if (timestamp != commonTimestamp) {
      spellTimestamps()
      timestamps(end) = timestamp
    }
  }

  private def spellTimestamps(): Unit = {
    timestamps = new Array[Long](elements.length)
    util.Arrays.fill(timestamps, begin, end, commonTimestamp)
  }

  private def spellNumbers(): Unit = {
    numbers = new Array[Long](elements.length)
    var i = begin
    while (i < end) {
      numbers(i) = firstNumber + i
      i += 1
    }
  }

  private def dropHolesAtFront(): Unit = {
    while (begin < end && elements(begin) == null) {
      begin += 1
      holes -= 1
    }
  }

  /** Closes the gaps if they are at least half of all, or else takes larger arrays. */
  private def makeRoom(): Unit = {
    if (size * 2 > elements.length) {
      val capacity = end * 2 + Initial
      elements = util.Arrays.copyOf(elements, capacity)
      if (numbers != null) numbers = util.Arrays.copyOf(numbers, capacity)
      if (timestamps != null) timestamps = util.Arrays.copyOf(timestamps, capacity)
    } else squeeze()
  }

  private def squeeze(): Unit = {
    if (numbers == null && holes > 0) spellNumbers()
    firstNumber += begin
    var to = 0
    var from = begin
    while (from < end) {
      if (elements(from) != null) {
        elements(to) = elements(from)
        if (numbers != null) numbers(to) = numbers(from)
        if (timestamps != null) timestamps(to) = timestamps(from)
        to += 1
      }
      from += 1
    }
    util.Arrays.fill(elements, to, end, null)
    begin = 0
    end = to
    holes = 0
  }
}

private[heap] object HeapList {
  private final val Initial = 4
}

/** The part that few lists need: see [[HeapList.accessTime]] and those after it. */
private[heap] final class ListRenewals {
  var time: Long = Long.MinValue
  var below: Long = Long.MinValue
  var changed = false
  var committed = false
  var rewriteFrom: Long = Long.MaxValue
}
