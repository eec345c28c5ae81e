package io.pillarbox.async

import scala.annotation.unused

/**
 * A stage of the [[CallPipeline]], which has the list. A stage passes a call on, holds it until an event,
 * or answers it, and knows no other stage. What it gives the call is a [[Holding]], on the list of the call,
 * which gives it back when it is over, whatever ended it. Mailbox thread only.
 */
private[async] abstract class Stage[IN, OUT] {
  protected final type Call = InFlightElement[IN, OUT]

  /** The stages on either side; null at the ends. Only [[CallPipeline]] reads `before`. */
  private[async] final var before: Stage[IN, OUT] = _
  protected final var next: Stage[IN, OUT] = _

  private[async] final def goesOnTo(stage: Stage[IN, OUT]): Unit = {
    next = stage
    stage.before = this
  }

  /** Takes a call, for its first or for a further attempt; sends it on by `goOn`, now or later. */
  def enter(call: Call): Unit

  protected final def goOn(call: Call): Unit = {
    call.at = next
    next.enter(call)
  }

  /** Hands a call that waits at an earlier stage to the function, to be begun later. */
  def ahead(call: Call): Unit = next.ahead(call)

  /** Tells a call that stands here that its phase has ended: its time is over, or its turn has come. */
  def due(call: Call): Unit = ()

  /**
   * Takes the end of an attempt of a call that stands here, or has passed: an answer or a failure.
   *
   * @return true if it goes on to the stage before, and so in the end out; otherwise this stage sees to the
   *   call
   */
  def ended(call: Call, attempt: CallAttempt[IN, OUT]): Boolean = true

  /** Ends a call that stands here, and has not passed. What it holds is given back by itself. */
  def withdraw(call: Call): Unit = ()

  /**
   * Tells that no input comes for a while: incomplete groups go on as they are.
   *
   * @return true if that holds for the stages behind; false if calls that stand here will go on in a while
   */
  def inputPauses(): Boolean = true

  /** Takes note of how an attempt has ended that nobody settles any more, since all calls are given up. */
  def keep(@unused call: Call, @unused attempt: CallAttempt[IN, OUT]): Unit = ()

  /** Stops all calls at this stage. */
  def close(): Unit = ()
}
