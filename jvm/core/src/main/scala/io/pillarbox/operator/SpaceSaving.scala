package io.pillarbox.operator

import java.util.{ArrayList, HashMap}

/**
 * Finds the heaviest of any number of keys with a fixed number of counters, by the algorithm Space-Saving (A.
 * Metwally, D. Agrawal, A. El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams,
 * ICDT 2005). A key with more than the total over the number of counters always has one. Single-threaded.
 *
 * @param copy of a key that its caller may change
 */
private[pillarbox] final class SpaceSaving[K](counters: Int, copy: K => K) {
  import SpaceSaving._

  private val byKey = new HashMap[K, Counter[K]]
  private val all = new ArrayList[Counter[K]](counters)
  private var sum = 0.0

  /** The weight of all keys. */
  def total: Double = sum

  def add(key: K, weight: Double): Unit = {
    sum += weight
    val found = byKey.get(key)
    if (found != null) found.count += weight
    else {
      val counter = if (all.size < counters) newCounter() else least()
      if (counter.count > 0) byKey.remove(counter.key)
      counter.key = copy(key)
      counter.error = counter.count
      counter.count += weight
      byKey.put(counter.key, counter): Unit
    }
  }

  /** Halves all weights, so that those of late count for more. */
  def halve(): Unit = {
    sum /= 2
    all.forEach { counter =>
      counter.count /= 2
      counter.error /= 2
    }
  }

  /** The key of which most weight is certain, with that weight, which is not too high. */
  def heaviest: Option[(K, Double)] = {
    var best: Counter[K] = null
    all.forEach(counter => if (best == null || counter.certain > best.certain) best = counter)
    Option(best).map(counter => (counter.key, counter.certain))
  }

  private def newCounter(): Counter[K] = {
    val made = new Counter[K]
    all.add(made)
    made
  }

  private def least(): Counter[K] = {
    var best = all.get(0)
    var i = 1
    while (i < all.size) {
      val counter = all.get(i)
      if (counter.count < best.count) best = counter
      i += 1
    }
    best
  }
}

private object SpaceSaving {

  /** A weight that is not too low, and too high by `error` at most. */
  private final class Counter[K] {
    var key: K = _
    var count = 0.0
    var error = 0.0

    def certain: Double = count - error
  }
}
