package io.pillarbox.metered

/**
 * Answers that outlive the task that got them, by the key of their call: append-only segments in a folder,
 * one for a writer, and an index of them in memory, one for a process and folder.
 *
 * What lives here: the format of segments, their files as an interface, and the journal as an operator sees
 * it. What may not: operators, or what a row is. A record is the bytes that another package makes of an
 * answer.
 */
package object journal
