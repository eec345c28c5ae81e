package io.pillarbox.operator

import java.util.HashMap

/**
 * Finds the heaviest of any number of keys with a fixed number of counters, by the algorithm Space-Saving (A.
 * Metwally, D. Agrawal, A. El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams,
 * ICDT 2005). A key with more than the total over the number of counters always has one. Single-threaded.
 *
 * @param copy of a key that its caller may change
 */
private[pillarbox] final class SpaceSaving[K](counters: Int, copy: K => K) {
  private val places = new HashMap[K, Integer]
  private val keys = new Array[Any](counters)

  /** The weights of the keys, which are not too low, and by how much they may be too high. */
  private val counts = new Array[Double](counters)
  private val errors = new Array[Double](counters)
  private var used = 0
  private var sum = 0.0

  /** The weight of all keys. */
  def total: Double = sum

  def add(key: K, weight: Double): Unit = {
    sum += weight
    val found = places.get(key)
    if (found != null) counts(found) += weight
    else {
      val place = if (used < counters) used else takeLeast()
      if (used < counters) used += 1
      val own = copy(key)
      keys(place) = own
      errors(place) = counts(place)
      counts(place) += weight
      places.put(own, place): Unit
    }
  }

  /** Halves all weights, so that those of late count for more. */
  def halve(): Unit = {
    sum /= 2
    for (place <- 0 until used) {
      counts(place) /= 2
      errors(place) /= 2
    }
  }

  /** The key of which most weight is certain, with that weight, which is not too high. */
  def heaviest: Option[(K, Double)] = {
    val place = (0 until used).maxByOption(place => counts(place) - errors(place))
    place.map(place => (keyAt(place), counts(place) - errors(place)))
  }

  private def keyAt(place: Int): K = keys(place).asInstanceOf[K]

  private def takeLeast(): Int = {
    var least = 0
    var place = 1
    while (place < counters) {
      if (counts(place) < counts(least)) least = place
      place += 1
    }
    places.remove(keyAt(least))
    least
  }
}
