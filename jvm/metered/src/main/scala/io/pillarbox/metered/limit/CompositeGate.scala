package io.pillarbox.metered.limit

import java.util
import java.util.concurrent.ConcurrentHashMap

/**
 * Needs a permit of each of several gates. While a call waits for one of them it holds none of the others,
 * so that what it is charged with counts from when it may begin.
 *
 * @param units the number of each gate's unit
 * @param ofValue true for those that hold for one value of a key. A pause is of these alone, if there are any,
 *   and what the service says of a unit of those of the unit that hear it
 */
private[metered] final class CompositeGate(
    gates: Array[CallGate],
    units: Array[Int],
    ofValue: Array[Boolean]
) extends CallGate {
  private val waiting: util.Map[Runnable, Passage] = new ConcurrentHashMap

  override def tryAcquire(waiter: Runnable): Boolean = {
    val passage = new Passage(waiter)
    waiting.put(waiter, passage)
    val granted = passage.begin()
    if (granted) waiting.remove(waiter, passage): Unit
    granted
  }

  override private[metered] def tryNow(waiter: Runnable): Boolean =
    throw new UnsupportedOperationException("Limits of several are in no other")

  override def cancel(waiter: Runnable): Boolean = {
    val passage = waiting.remove(waiter)
    (passage ne null) && passage.abandon()
  }

  override def observe(startNanos: Long, error: Throwable): Unit = gates.foreach(_.observe(startNanos, error))

  override def told(unit: Int, said: Told): Unit =
    ownOf(i => units(i) == unit && gates(i).hears).foreach(gates(_).hear(said))

  override def pause(nanos: Long): Unit = ownOf(_ => true).foreach(gates(_).pause(nanos))

  private def ownOf(isMeant: Int => Boolean): Seq[Int] = {
    val meant = gates.indices.filter(isMeant)
    if (meant.exists(ofValue(_))) meant.filter(ofValue(_)) else meant
  }

  override def mayBegin: Boolean = gates.forall(_.mayBegin)

  override def limitNow: Int = gates.iterator.map(_.limitNow).min

  override def release(): Unit = gates.reverseIterator.foreach(_.release())

  /**
   * One call on its way through all gates, and then its permit. The side that sets `over` first, the arrival
   * or the cancellation, decides.
   */
  private final class Passage(waiter: Runnable) extends Permit {
    private val claims = gates.indices.map(new Part(_)).toArray
    private var over = false
    @volatile private var at = 0
    @volatile private var reported: Int => Double = _

    private final class Part(gate: Int) extends Claim {
      waiter match {
        case call: CallWaiter if units(gate) != CallGate.Calls => asked = call.estimate(gate)
        case _ => ()
      }
      override def run(): Unit = if (advance(gate)) arrive()
    }

    /** True if the call has its permit. */
    def begin(): Boolean = {
      val granted = advance(None) && finish()
      if (granted) publish()
      granted
    }

    /** Takes what it lacks beside the gate that it comes from; else gives all back and stands in line. */
    private def advance(from: Int): Boolean = {
      var held = from
      var lacking = firstLacking(held)
      var isInLine = false
      while (lacking != None && !isInLine) {
        giveBackBefore(lacking, held)
        at = lacking
        isInLine = !gates(lacking).tryAcquire(claims(lacking))
        held = lacking
        if (!isInLine) lacking = firstLacking(held)
        else if (isOver) gates(lacking).cancel(claims(lacking)): Unit
      }
      lacking == None
    }

    /** Takes permits of all gates but one, up to the first that has none. */
    private def firstLacking(held: Int): Int = {
      var i = 0
      while (i < gates.length && (i == held || gates(i).tryNow(claims(i)))) i += 1
      if (i == gates.length) None else i
    }

    private def giveBackBefore(lacking: Int, held: Int): Unit = {
      var i = gates.length - 1
      while (i >= 0) {
        if (i < lacking || i == held) gates(i).giveBack(claims(i))
        i -= 1
      }
    }

    private def isOver: Boolean = synchronized(over)

    private def arrive(): Unit =
      if (finish()) {
        waiting.remove(waiter, this): Unit
        publish()
        waiter.run()
      } else unused()

    private def publish(): Unit = waiter match {
      case call: CallWaiter => call.permit = this
      case _ => ()
    }

    private def finish(): Boolean = synchronized {
      val undecided = !over
      over = true
      undecided
    }

    /** Leaves the line in which it stands. If it is between two, it gives back there what it holds. */
    def abandon(): Boolean = {
      val abandoned = finish()
      if (abandoned) gates(at).cancel(claims(at)): Unit
      abandoned
    }

    override def observe(startNanos: Long, error: Throwable): Unit =
      CompositeGate.this.observe(startNanos, error)

    override def told(unit: Int, said: Told): Unit = CompositeGate.this.told(unit, said)

    override def pause(nanos: Long): Unit = CompositeGate.this.pause(nanos)

    override def used(amounts: Int => Double): Unit = reported = amounts

    override def release(): Unit = {
      val amounts = reported
      var i = gates.length - 1
      while (i >= 0) {
        val isKnown = (amounts ne null) && units(i) != CallGate.Calls
        gates(i).settle(claims(i), if (isKnown) amounts(units(i)) else Double.NaN)
        i -= 1
      }
    }

    override def unused(): Unit = gates.indices.reverseIterator.foreach(i => gates(i).giveBack(claims(i)))
  }

  private final val None = -1
}
