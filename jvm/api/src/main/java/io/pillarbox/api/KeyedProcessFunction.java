package io.pillarbox.api;

import java.io.Serializable;

/**
 * Processes the rows of one key after the other, with state and timers of that key.
 *
 * <p>One object serves all keys of a partition; what belongs to a key goes into state. All calls are on the
 * mailbox thread, never two at a time. What a method throws fails the task.
 *
 * @param <K> the key; a Spark {@code Row} of the {@code by} columns for {@code pb.JvmFunction}
 * @param <IN> the rows that come; a Spark {@code Row}
 * @param <OUT> the rows that go; a Spark {@code Row}
 */
public abstract class KeyedProcessFunction<K, IN, OUT> implements Serializable {
  private static final long serialVersionUID = 1L;

  /** The value of {@link Context#timestamp} for a row without a time. */
  public static final long NO_TIMESTAMP = Long.MIN_VALUE;

  /** Called once before the first row: get state handles here. There is no current key. */
  public void open(OpenContext context) throws Exception {}

  /** Called for every row, its key being the current one. */
  public abstract void processElement(IN value, Context<K> context, Collector<OUT> out) throws Exception;

  /**
   * Called when a timer fires, its key being the current one. Rows emitted by event-time timers get its
   * timestamp.
   */
  public void onTimer(long timestamp, OnTimerContext<K> context, Collector<OUT> out) throws Exception {}

  /** Called once after the last row, also after a failure. What it throws is in the executor's log only. */
  public void close() throws Exception {}

  /** Tells a keyed function about its operator when it is opened, and gives it its state. */
  public interface OpenContext extends io.pillarbox.api.OpenContext {

    /**
     * Returns the handle of a state; it always acts on the current key.
     *
     * @throws RuntimeException if the name is taken by a state of another type, or if what is stored under it
     *   can't be read by the descriptor's serializer
     */
    <S extends State> S getState(StateDescriptor<S> descriptor);
  }

  /** Tells a function about the row or timer that is processed. Valid during the call only. */
  public interface Context<K> {

    /** The time of the row, {@link #NO_TIMESTAMP} if it has none, or of the timer. */
    long timestamp();

    /**
     * True in {@code processElement} for a row at or behind the watermark of the micro-batch before, under
     * {@code on_late="process"}.
     */
    default boolean isLate() {
      return false;
    }

    /** The key of the row or timer. */
    K currentKey();

    /** The clocks, and the timers of the current key. */
    TimerService timerService();

    /** Emits a row to a side output, with the timestamp of the row or timer that is processed. */
    <X> void output(OutputTag<X> tag, X value);
  }

  /** Tells a function about the timer that is processed. */
  public interface OnTimerContext<K> extends Context<K> {

    /** The clock that made the timer fire. */
    TimeDomain timeDomain();
  }
}
