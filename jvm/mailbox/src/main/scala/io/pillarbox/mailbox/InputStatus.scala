package io.pillarbox.mailbox

/** An input's answer when it is asked for its next row. */
private[pillarbox] sealed abstract class InputStatus

private[pillarbox] object InputStatus {

  /** More can be taken at once. */
  case object MoreAvailable extends InputStatus

  /** Nothing is there now: suspend, and be resumed when something came. */
  case object NothingAvailable extends InputStatus

  /** No more rows will come; calls in flight are still to be waited for. */
  case object EndOfData extends InputStatus
}
