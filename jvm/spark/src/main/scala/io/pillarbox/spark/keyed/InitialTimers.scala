package io.pillarbox.spark.keyed

import scala.collection.mutable

import io.pillarbox.api.TimeDomain
import io.pillarbox.spark.state.InitialState

/**
 * Compares the timers of the initial state with the states that are timers as well, as in the column form. One
 * that is only in one of them would never fire, or nobody would be told. Task thread only.
 *
 * @param states the states that are timers, with their time domains
 * @param found the states that the initial state has, and maybe [[InitialState.Timers]]
 * @throws RuntimeException (INITIAL_TIMER_ALONE) if it has some of them only
 */
private final class InitialTimers(operator: String, states: Map[String, TimeDomain], found: Seq[String]) {
  private val written = mutable.Set.empty[(TimeDomain, Long)]
  private val registered = mutable.Set.empty[(TimeDomain, Long)]

  refuseLone()

  private def refuseLone(): Unit = {
    val (given, missing) = (InitialState.Timers +: states.keys.toSeq.sorted).partition(found.contains)
    if (states.nonEmpty && given.nonEmpty && missing.nonEmpty)
      throw KeyedErrors.named(
        "INITIAL_TIMER_ALONE",
        operator,
        "found" -> names(given),
        "missing" -> names(missing)
      )
  }

  private def names(all: Seq[String]): String =
    all.map(name => if (name == InitialState.Timers) "pb.TIMERS" else s"'$name'").mkString(" and ")

  /** Takes note of a value of the current key. */
  def write(state: String, value: Any): Unit = states.get(state).foreach { domain =>
    written += domain -> value.asInstanceOf[Long]
  }

  /** Takes note of a timer of the current key. */
  def register(domain: TimeDomain, time: Long): Unit = if (states.nonEmpty) registered += domain -> time

  /**
   * Ends a key.
   *
   * @throws RuntimeException (INITIAL_TIMER_DIFFERS) if its timers are others than its states have
   */
  def endKey(key: => String): Unit = {
    if (written != registered) states.foreach { case (state, domain) =>
      val (own, timers) = (timesOf(written, domain), timesOf(registered, domain))
      if (own != timers)
        throw KeyedErrors.named(
          "INITIAL_TIMER_DIFFERS",
          operator,
          "state" -> state,
          "key" -> key,
          "found" -> own,
          "timers" -> timers
        )
    }
    written.clear()
    registered.clear()
  }

  private def timesOf(timers: collection.Set[(TimeDomain, Long)], domain: TimeDomain): String = {
    val times = timers.toSeq.collect { case (`domain`, time) => time }.sorted
    if (times.isEmpty) "no time" else times.mkString(" and ")
  }
}
