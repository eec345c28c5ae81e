package io.pillarbox.async

import java.util

import scala.util.control.NonFatal

import io.pillarbox.metered.limit.Permit

/**
 * Lets calls wait for the permits of their limits: all in one [[Lane]], or, if a limit has a key, in one for
 * each of its values. Mailbox thread only.
 */
private[async] final class Limits[IN, OUT](way: CallWay[IN, OUT]) extends Stage[IN, OUT] {
  private val charges = way.options.charges.orNull
  private val common =
    if (way.options.valueGates.isEmpty) new Lane[IN, OUT](way, this, way.options.gate, null) else null
  private var waitingLanes = 0

  override def enter(call: Call): Unit = if (isCharged(call)) laneOf(call).enter(call)

  private def laneOf(call: Call): Lane[IN, OUT] = if (common ne null) common else call.value.lane

  /** Says what the call is to be charged with. One that can't be is answered with the reason. */
  private def isCharged(call: Call): Boolean = (charges eq null) || {
    val problem = charge(call)
    (problem eq null) || isChargedInPart(call, problem)
  }

  /** Returns why the call can't be charged, or null. */
  private def charge(call: Call): Throwable =
    try {
      // A poll is a call, and what it collects was used before.
      call.charges = charges(if (call.hasTicket) util.Collections.emptyList[IN]() else inputsOf(call))
      null
    } catch { case NonFatal(error) => error }

  /** Takes out the members that can't be charged by themselves; all, if only the sum can't be. */
  private def isChargedInPart(call: Call, problem: Throwable): Boolean = call match {
    case group: CallGroup[IN, OUT] if group.members.removeIf(isRefused(_)) =>
      !group.members.isEmpty && isCharged(group)
    case _ =>
      membersOf(call).forEach(refuse(_, problem))
      false
  }

  private def isRefused(one: Call): Boolean = {
    val problem = charge(one)
    if (problem ne null) refuse(one, problem)
    problem ne null
  }

  private def refuse(one: Call, problem: Throwable): Unit =
    CallAttempt.standIn(way.inbox, one).completeExceptionally(problem)

  private def inputsOf(call: Call): util.List[IN] = {
    val inputs = new util.ArrayList[IN]
    membersOf(call).forEach(one => inputs.add(one.input): Unit)
    inputs
  }

  private def membersOf(call: Call): util.List[Call] = call match {
    case group: CallGroup[IN, OUT] => group.members
    case one => util.Collections.singletonList(one)
  }

  /** Sends a call on that has its permit. */
  def start(call: Call, permit: Permit): Unit = {
    call.permit = permit
    goOn(call)
  }

  /** Tells that calls begin or cease to wait in a lane. */
  def laneWaits(begins: Boolean): Unit = {
    waitingLanes += (if (begins) 1 else -1)
    if (waitingLanes > 0) way.metrics.limitWait.markStart() else way.metrics.limitWait.markEnd()
  }

  /** Takes a call that has a place again. */
  override def due(call: Call): Unit = laneOf(call).placed(call)

  override def withdraw(call: Call): Unit = laneOf(call).withdraw(call)

  /** Releases the permit if no attempt has taken it over. */
  override def left(call: Call): Unit = if (call.permit ne null) {
    val permit = call.permit
    call.permit = null
    permit.unused()
  }

  override def close(): Unit = if (common ne null) common.close()
}
