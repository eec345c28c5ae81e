package io.pillarbox.state

import java.io.{ByteArrayOutputStream, OutputStream}

/**
 * The summary of a commit or snapshot.
 *
 * @param version the state's version after it
 * @param entries the number of values, list elements, map entries and removals written
 * @param bytes the length of the stream
 * @param removals the number of removals among the entries
 */
private[pillarbox] final case class CommitSummary(
    version: Long,
    entries: Long,
    bytes: Long,
    removals: Long = 0
)

/** A commit in memory: exactly the entries that changed since the one before. Immutable. */
private[pillarbox] final class ChangeLog private (val summary: CommitSummary, content: Array[Byte]) {

  def isEmpty: Boolean = summary.entries == 0

  def entries: Long = summary.entries

  def writeTo(out: OutputStream): Unit = out.write(content)
}

private[pillarbox] object ChangeLog {
  private[state] def collect(write: OutputStream => CommitSummary): ChangeLog = {
    val out = new ByteArrayOutputStream(4096)
    val summary = write(out)
    new ChangeLog(summary, out.toByteArray)
  }
}
