package io.pillarbox.metered.lease

import java.util
import java.util.concurrent.TimeUnit

import scala.util.control.NonFatal

import io.pillarbox.metered.limit.LimitClock

/** What a process has of something that the driver lends. Any thread. */
private[metered] trait Borrowed {

  /** The name of what is lent; its reports bear it. */
  def name: String

  /** True if its answers may take longer than those of others, so that its reports go by themselves. */
  def isAlone: Boolean

  /** Makes the next report, as it is sent; null for none. It asks its borrower when it has to report again. */
  def report(): Report

  /** @param sentNanos the time at which the report was sent */
  def granted(report: Report, grant: Grant, sentNanos: Long): Unit

  /** When it is to report, if it is; the borrower's. */
  private[lease] var dueNanos = 0L
  private[lease] var isDue = false
  private[lease] var part = 0L
}

/**
 * A process's way to what the driver lends: the one loop that reports on all of its parts. What is due
 * at one time goes into one message, and the driver says how often there may be one; a part that reports
 * alone does so when it is due. Thread-safe; it has no thread of its own.
 *
 * @param send sends a message to the driver, and answers on any thread, or never. Must not block
 */
private[pillarbox] final class Borrower(clock: LimitClock, send: (Seq[Sent], Grants => Unit) => Unit) {
  import Borrower._

  private val queue = new util.PriorityQueue[Due]((a, b) => java.lang.Long.signum(a.at - b.at))
  private var isArmed = false
  private var armedFor = 0L
  private var hasSent = false

  /** The time from which another message may be sent. */
  private var nextNanos = 0L
  private var gap = 0L
  private var parts = 0L

  /** Asks a part for a report after this time, or sooner if it was to report sooner. */
  def due(part: Borrowed, inNanos: Long): Unit = synchronized {
    val at = clock.nanoTime + inNanos
    if (!part.isDue || at - part.dueNanos < 0) {
      if (part.part == 0) {
        parts += 1
        part.part = parts
      }
      part.isDue = true
      part.dueNanos = at
      if (part.isAlone) clock.schedule(math.max(0L, inNanos), () => sendAlone(part, at))
      else {
        queue.add(new Due(at, part)): Unit
        arm()
      }
    }
  }

  private def arm(): Unit = if (!queue.isEmpty) {
    val next = queue.peek.at
    val at = if (hasSent && nextNanos - next > 0) nextNanos else next
    if (!isArmed || at - armedFor < 0) {
      isArmed = true
      armedFor = at
      clock.schedule(math.max(0L, at - clock.nanoTime), () => flush(at))
    }
  }

  private def flush(at: Long): Unit = {
    try {
      val reports = takeDue(at).flatMap(reportOf(_))
      if (reports.nonEmpty) {
        val now = clock.nanoTime
        synchronized {
          hasSent = true
          nextNanos = now + gap
        }
        sendAll(reports, now)
      }
    } finally synchronized(arm())
  }

  /** Sends the report of one part, as soon as it is due. */
  private def sendAlone(part: Borrowed, at: Long): Unit = {
    val isTaken = synchronized {
      val isTaken = part.isDue && part.dueNanos == at
      if (isTaken) part.isDue = false
      isTaken
    }
    if (isTaken) reportOf(part).foreach(one => sendAll(Seq(one), clock.nanoTime))
  }

  /** A part that fails to report is asked again, and keeps no other from it. */
  private def reportOf(part: Borrowed): Option[(Borrowed, Report)] =
    try Option(part.report()).map(part -> _)
    catch {
      case NonFatal(error) =>
        log.warn(s"Could not report on ${part.name}", error)
        due(part, AgainNanos)
        None
    }

  private def takeDue(at: Long): Seq[Borrowed] = synchronized {
    if (armedFor == at) isArmed = false
    val now = clock.nanoTime
    val taken = Seq.newBuilder[Borrowed]
    var count = 0
    val isTime = !hasSent || now - nextNanos >= 0
    while (isTime && count < MostReports && !queue.isEmpty && queue.peek.at - now <= 0) {
      val due = queue.poll()
      if (due.part.isDue && due.part.dueNanos == due.at) {
        due.part.isDue = false
        taken += due.part
        count += 1
      }
    }
    taken.result()
  }

  private def sendAll(reports: Seq[(Borrowed, Report)], now: Long): Unit =
    send(
      reports.map { case (part, report) => Sent(part.name, part.part, report) },
      answer => {
        if (answer.gapNanos > 0) synchronized { gap = answer.gapNanos }
        reports.zip(answer.grants).foreach { case ((part, report), grant) =>
          grant.foreach(part.granted(report, _, now))
        }
      }
    )
}

private object Borrower {

  /** More than that wait for the next message. */
  private final val MostReports = 1000

  /** The time after which a part is asked again whose report has failed. */
  private val AgainNanos = TimeUnit.MILLISECONDS.toNanos(250)
  private val log = org.slf4j.LoggerFactory.getLogger(classOf[Borrower])

  private final class Due(val at: Long, val part: Borrowed)
}
