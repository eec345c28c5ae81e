package io.pillarbox.async

import io.pillarbox.mailbox.ProcessingTimer

/**
 * Gathers elements that are called together, and sends each group on as one call. The elements stay at this
 * stage until that call begins. Mailbox thread only.
 */
private[async] final class Batches[IN, OUT](pipeline: CallPipeline[IN, OUT], batching: Batching)
    extends Stage[IN, OUT] {
  private var gathering = new CallGroup(pipeline)
  private val waited = new ProcessingTimer {
    override def onProcessingTime(timestampMs: Long): Unit = send()
  }

  /**
   * Adds the call to the group, which goes on when it is full, or after the wait of its first call. A call that
   * is a group already goes on.
   */
  override def enter(call: Call): Unit = call match {
    case group: CallGroup[IN, OUT] => goOn(group)
    case one => gather(one)
  }

  private def gather(call: Call): Unit = {
    val members = gathering.members
    members.add(call)
    if (members.size >= batching.size && gathering.isWanted && members.size >= batching.size) send()
    else if (members.size == 1)
      pipeline.time.schedule(waited, pipeline.time.currentProcessingTime + batching.waitMs)
  }

  private def send(): Unit = if (!gathering.members.isEmpty) {
    pipeline.time.cancel(waited): Unit
    val group = gathering
    gathering = new CallGroup(pipeline)
    if (group.isWanted) goOn(group)
  }

  /** Withdraws an element that is decided before it is called: its group may need no call either. */
  override def withdraw(call: Call): Unit = next.withdraw(call)

  override def inputPauses(): Boolean = {
    send()
    true
  }

  override def close(): Unit = pipeline.time.cancel(waited): Unit
}
