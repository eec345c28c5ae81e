package io.pillarbox.async

import io.pillarbox.metered.journal.{CallCost, CallJournal}

/** Answers a call whose rows the journal has. Mailbox thread only; what the journal throws fails the task. */
private[async] final class Answered[IN, OUT](pipeline: CallPipeline[IN, OUT], journal: CallJournal[OUT])
    extends Stage[IN, OUT] {

  override def enter(call: Call): Unit = if (!answers(call)) goOn(call)

  /** Takes a call out of wherever it waits, if the journal has its rows; else false. */
  def answers(call: Call): Boolean = {
    val known = journal.find(call.key)
    if (known ne null) {
      pipeline.metrics.journalHits += 1
      call.at = this
      CallAttempt.standIn(pipeline.inbox, call).complete(known)
    }
    known ne null
  }
}

/** Writes the function's answers to the journal, which fails the task if it throws. Mailbox thread only. */
private[async] final class Kept[IN, OUT](journal: CallJournal[OUT]) extends Stage[IN, OUT] {

  override def enter(call: Call): Unit = {
    journal.willCall()
    goOn(call)
  }

  /** Keeps answers only: the replacement of an answer, at the end of its time, is none. */
  override def ended(call: Call, attempt: CallAttempt[IN, OUT]): Boolean = {
    keep(call, attempt)
    true
  }

  override def keep(call: Call, attempt: CallAttempt[IN, OUT]): Unit = if (attempt.isAnswer) {
    val usage = if (call.usage eq null) Nil else call.usage.amounts
    journal.keep(call.key, CallCost(call.attempts, usage), attempt.attempt, attempt.rows)
  }
}
