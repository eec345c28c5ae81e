package io.pillarbox.api;

import java.io.Serializable;
import java.time.Duration;

/**
 * Says how long state lives after it was last written (or read). The {@code with} methods give changed
 * copies.
 *
 * <p>A value, list element or map entry is expired once its timestamp plus {@code ttlMs} is at or before the
 * clock's time. It is removed when it is met. Of what nobody asks for, the heap, and RocksDB by event time
 * but for lists, look at some entries for each access, and RocksDB's compaction drops what is expired by
 * processing time.
 *
 * @param ttlMs how long, in milliseconds, more than 0
 * @param update what renews the timestamp
 * @param visibility whether an expired value may be seen once more
 * @param timeDomain which clock counts; event time gives the same answer on every replay
 */
public record StateTtl(long ttlMs, Update update, Visibility visibility, TimeDomain timeDomain)
    implements Serializable {

  /** The accesses that renew a timestamp. */
  public enum Update {
    /** A write renews it. */
    ON_CREATE_AND_WRITE,

    /** A write or a read renews it. */
    ON_READ_AND_WRITE
  }

  /** Says if an expired value may be seen. */
  public enum Visibility {
    /** A value is never seen again once it is expired. */
    NEVER_RETURN_EXPIRED,

    /** An expired value is returned once, if no clean-up came first, and then removed. */
    RETURN_EXPIRED_IF_NOT_CLEANED_UP
  }

  /** @throws IllegalArgumentException if {@code ttlMs} is not positive */
  public StateTtl {
    if (ttlMs <= 0)
      throw new IllegalArgumentException("A time to live must be more than 0 ms, found " + ttlMs + " ms");
  }

  /**
   * Returns a time to live that is renewed on writes, by processing time, whose expired values are never
   * seen.
   *
   * @throws IllegalArgumentException if {@code ttlMs} is not positive
   */
  public static StateTtl ofMillis(long ttlMs) {
    return new StateTtl(
        ttlMs,
        Update.ON_CREATE_AND_WRITE,
        Visibility.NEVER_RETURN_EXPIRED,
        TimeDomain.PROCESSING_TIME);
  }

  /**
   * Does as {@link #ofMillis}.
   *
   * @throws IllegalArgumentException if the duration is shorter than a millisecond
   */
  public static StateTtl of(Duration ttl) {
    return ofMillis(ttl.toMillis());
  }

  /** Returns a copy that is renewed by other accesses. */
  public StateTtl withUpdate(Update renews) {
    return new StateTtl(ttlMs, renews, visibility, timeDomain);
  }

  /** Returns a copy with another visibility. */
  public StateTtl withVisibility(Visibility seen) {
    return new StateTtl(ttlMs, update, seen, timeDomain);
  }

  /** Returns a copy by another clock. */
  public StateTtl withTimeDomain(TimeDomain domain) {
    return new StateTtl(ttlMs, update, visibility, domain);
  }
}
