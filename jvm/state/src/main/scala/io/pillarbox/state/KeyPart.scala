package io.pillarbox.state

/**
 * The part of the keys in a stored database that is a partition's own. The others' entries are hidden from it
 * until a sweep has deleted them.
 *
 * @param share about what part of all that is, from 0 to 1
 * @param entries the entries of all keys
 * @param newTest makes a test that is true for the partition's keys, for one thread
 */
private[pillarbox] final class KeyPart[K](
    val share: Double,
    val entries: Long,
    newTest: () => K => Boolean
) {

  /** For the owner of the database. Made when it is asked first, since that takes milliseconds. */
  lazy val isMine: K => Boolean = newTest()

  /** For whoever sweeps the database. */
  lazy val isMineInSweep: K => Boolean = newTest()
}
