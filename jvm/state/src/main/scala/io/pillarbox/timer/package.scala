package io.pillarbox

/**
 * Event-time and processing-time timers of keys.
 *
 * Timers come from a keyed function through [[timer.InternalTimerService]], wait in a queue of
 * `io.pillarbox.queue` (heap or RocksDB), and go back to the function in time order as the watermark or the
 * clock advances. They are written beside the state, as a snapshot or as the changes since the last commit.
 *
 * What may not live here: operators and their outputs, state handles, and any thread; the owner of the
 * service calls it on the mailbox thread.
 */
package object timer
