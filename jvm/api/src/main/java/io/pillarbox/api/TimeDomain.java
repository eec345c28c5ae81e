package io.pillarbox.api;

/** The clocks that time can go by. Their order is written to disk. */
public enum TimeDomain {

  /** The watermark: the same on every replay. */
  EVENT_TIME,

  /** The clock of the machine; in a stream that of the micro-batch. */
  PROCESSING_TIME
}
