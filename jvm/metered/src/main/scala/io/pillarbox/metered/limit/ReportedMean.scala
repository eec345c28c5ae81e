package io.pillarbox.metered.limit

/**
 * The amount to charge a call with that has no estimate: the mean of what calls have reported. Before the
 * first report it is all of the limit, so that one call goes alone, and no others with it that might need
 * more than there is. One thread at a time.
 *
 * @param most the amount of the limit in its interval
 */
private[metered] final class ReportedMean(most: Double) {
  var sum: Double = 0.0
  var count: Long = 0L

  def add(amount: Double): Unit = {
    sum += amount
    count += 1
  }

  def isKnown: Boolean = count > 0

  def toCharge(asked: Double): Double =
    if (!asked.isNaN) asked else if (isKnown) math.min(most, sum / count.toDouble) else most

  /**
   * Takes note of what a call has used, and returns what it is to be charged with. One that reported nothing
   * keeps its charge, unless that stands for what nobody knows yet.
   *
   * @param used NaN if nothing was reported
   */
  def settled(charge: Charge, used: Double): Double =
    if (!used.isNaN) {
      add(used)
      used
    } else if (charge.asked.isNaN && !isKnown) 0.0
    else charge.amount
}
