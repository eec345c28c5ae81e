package io.pillarbox.state

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
