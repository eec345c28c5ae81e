package io.pillarbox.timer

/** Takes timers that fire. The timer's key is the current key then, and the timer no longer registered. */
trait Triggerable[K] {
  @throws[Exception]
  def onEventTime(timer: Timer[K]): Unit

  @throws[Exception]
  def onProcessingTime(timer: Timer[K]): Unit
}
