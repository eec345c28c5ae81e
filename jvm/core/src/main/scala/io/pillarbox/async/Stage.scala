package io.pillarbox.async

/**
 * One station of a call's way: see [[CallWay]], which has the list. A stage passes a call on, holds it until
 * something comes, or answers it, and knows no other stage. What a call holds of a stage, it gives back when
 * it is over, whatever ended it. Mailbox thread only.
 */
private[async] abstract class Stage[IN, OUT] {
  protected final type Call = InFlightElement[IN, OUT]

  /** The stages on either side; null at the ends. [[CallWay]] alone looks at `before`. */
  private[async] final var before: Stage[IN, OUT] = _
  protected final var next: Stage[IN, OUT] = _

  private[async] final def goesOnTo(stage: Stage[IN, OUT]): Unit = {
    next = stage
    stage.before = this
  }

  /** A call comes, for its first or for a further attempt. It goes on by `goOn`, now or later. */
  def enter(call: Call): Unit

  protected final def goOn(call: Call): Unit = {
    call.at = next
    next.enter(call)
  }

  /** A call that waits at an earlier stage is handed to the function all the same, to be begun later. */
  def ahead(call: Call): Unit = next.ahead(call)

  /** The call stands here, and what it waits for here has come: the time that it was given, or its turn. */
  def due(call: Call): Unit = ()

  /**
   * An attempt of a call that stands here, or has passed, is answered or has failed.
   *
   * @return
   *   whether that goes on to the stage before, and so in the end out; otherwise this stage has seen to the
   *   call
   */
  def ended(call: Call, attempt: CallAttempt[IN, OUT]): Boolean = true

  /** The call, which stands here and has not passed, is over. */
  def withdraw(call: Call): Unit = ()

  /** The call, which has passed, is over, or goes back to an earlier stage. */
  def left(call: Call): Unit = ()

  /** Whether nothing more may be taken in. */
  def isFull: Boolean = false

  /**
   * No input comes for a while: what waits for company goes on as it is.
   *
   * @return
   *   whether that holds for the stages behind; not if calls that stand here will go on in a while
   */
  def inputPauses(): Boolean = true

  /** Nothing goes on from here any more. */
  def close(): Unit = ()
}
