package io.pillarbox.api;

import java.util.List;

/**
 * The clocks, and the timers of the current key. Timers refuse other threads, as {@link State} does, and a
 * function without an {@code onTimer} of its own can't register any: both are a {@code RuntimeException}.
 */
public interface TimerService {

  /** The time of the micro-batch in milliseconds; that of the machine in a batch and in real-time mode. */
  long currentProcessingTime();

  /** The watermark in milliseconds; {@code Long.MIN_VALUE} before the first one. */
  long currentWatermark();

  /** Calls {@code onTimer} once when the watermark reaches {@code time}, however often it is registered. */
  void registerEventTimeTimer(long time);

  /** Calls {@code onTimer} once when processing time reaches {@code time}, however often it is registered. */
  void registerProcessingTimeTimer(long time);

  /** Deletes a timer. No-op if there is no such timer. */
  void deleteEventTimeTimer(long time);

  /** Deletes a timer. No-op if there is no such timer. */
  void deleteProcessingTimeTimer(long time);

  /** The times of the current key's event-time timers, ascending. */
  List<Long> eventTimeTimers();

  /** The times of the current key's processing-time timers, ascending. */
  List<Long> processingTimeTimers();

  /** Deletes all timers of the current key; returns how many there were. */
  int deleteAllTimers();
}
