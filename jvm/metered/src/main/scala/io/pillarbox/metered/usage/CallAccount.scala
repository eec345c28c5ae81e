package io.pillarbox.metered.usage

/**
 * What the call of an element was, when its rows are known. Of elements that share a call the first to leave
 * has its attempts, so that the sum over elements is what was made.
 *
 * @param callId the idempotency key of the call, also where another element has made it
 * @param attempts made for this element; 0 if the answer is the journal's, or another element's
 * @param elapsedMs the time from its first attempt until its rows were known; 0 if it needed none
 * @param isFromJournal true if the journal had the answer
 * @param usage what those attempts have reported; null if nothing was
 */
private[pillarbox] final case class CallAccount(
    callId: String,
    attempts: Int,
    elapsedMs: Long,
    isFromJournal: Boolean,
    usage: Usage
)
