package io.pillarbox.mailbox

import java.util.concurrent.atomic.AtomicReference

/**
 * A reference that many threads change, with room behind it: what lies next in memory is most often a list or a
 * counter of the one thread that reads here, and each write to that would take the cache line from the others.
 *
 * Fields of a class come before those of its subclasses, so these stand between the word and a subclass's own. They
 * fill two lines of 64 bytes, as processors fetch lines in pairs.
 */
private[pillarbox] abstract class ContendedReference extends AtomicReference[AnyRef] {
  protected[this] var p00, p01, p02, p03, p04, p05, p06, p07: Long = 0L
  protected[this] var p08, p09, p10, p11, p12, p13, p14, p15: Long = 0L
}
