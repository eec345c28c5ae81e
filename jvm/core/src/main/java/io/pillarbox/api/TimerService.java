package io.pillarbox.api;

import java.util.List;

/** The clocks, and the timers of the current key. Timers refuse other threads, as {@link State} does. */
public interface TimerService {

  /** The time of the micro-batch; that of the machine in a batch. */
  long currentProcessingTime();

  /** {@code Long.MIN_VALUE} before the first watermark. */
  long currentWatermark();

  /**
   * {@code onTimer} is called once when the watermark reaches {@code time}; twice registered is once
   * registered.
   */
  void registerEventTimeTimer(long time);

  /** {@code onTimer} is called once when processing time reaches {@code time}. */
  void registerProcessingTimeTimer(long time);

  /** No-op if there is no such timer. */
  void deleteEventTimeTimer(long time);

  /** No-op if there is no such timer. */
  void deleteProcessingTimeTimer(long time);

  /** The times of the current key's event-time timers, ascending. */
  List<Long> eventTimeTimers();

  /** The times of the current key's processing-time timers, ascending. */
  List<Long> processingTimeTimers();

  /** Deletes all timers of the current key; how many there were. */
  int deleteAllTimers();
}
