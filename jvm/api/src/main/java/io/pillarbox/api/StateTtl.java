package io.pillarbox.api;

import java.io.Serializable;
import java.time.Duration;

/**
 * Says how long state lives after it was last written (or read), and how expired state is cleared away. The
 * {@code with} methods give changed copies.
 *
 * <p>A value, list element or map entry is expired once its timestamp plus {@code ttlMs} is at or before the
 * clock's time.
 *
 * @param ttlMs how long, in milliseconds, more than 0
 * @param update what renews the timestamp
 * @param visibility whether an expired value may be seen once more
 * @param timeDomain which clock counts; event time gives the same answer on every replay
 * @param cleanup how expired state that nobody reads goes away
 */
public record StateTtl(
    long ttlMs, Update update, Visibility visibility, TimeDomain timeDomain, Cleanup cleanup)
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

  /**
   * Says how expired state that nobody reads goes away. Each backend takes what concerns it.
   *
   * @param inFullSnapshot leave expired entries out of snapshots; the running backend keeps them
   * @param incrementalEntries heap, and RocksDB by event time but for lists: how many entries are looked at for
   *   each access to the state; 0 switches it off. On the heap up to 8 accesses share one look, at the first of
   *   them; on RocksDB some hundreds do, and more where little has expired
   * @param incrementalEveryRecord also look at that many each time a current key is set
   * @param atCompaction RocksDB: drop expired entries when files are compacted (processing time only)
   */
  public record Cleanup(
      boolean inFullSnapshot, int incrementalEntries, boolean incrementalEveryRecord, boolean atCompaction)
      implements Serializable {

    /** Looks at 5 entries for each access, and drops at compaction in RocksDB. */
    public static final Cleanup DEFAULT = new Cleanup(false, 5, false, true);

    /** Cleans up on reads only. */
    public static final Cleanup NONE = new Cleanup(false, 0, false, false);

    /** @throws IllegalArgumentException if {@code incrementalEntries} is negative */
    public Cleanup {
      if (incrementalEntries < 0)
        throw new IllegalArgumentException(
            "incrementalEntries must be 0 or more, found " + incrementalEntries);
    }

    /** Returns a copy that leaves expired entries out of full snapshots. */
    public Cleanup withFullSnapshot() {
      return new Cleanup(true, incrementalEntries, incrementalEveryRecord, atCompaction);
    }

    /**
     * Returns a copy with other incremental clean-up.
     *
     * @throws IllegalArgumentException if {@code entries} is negative
     */
    public Cleanup withIncremental(int entries, boolean everyRecord) {
      return new Cleanup(inFullSnapshot, entries, everyRecord, atCompaction);
    }

    /** Returns a copy with or without dropping at compaction. */
    public Cleanup withCompaction(boolean on) {
      return new Cleanup(inFullSnapshot, incrementalEntries, incrementalEveryRecord, on);
    }
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
        TimeDomain.PROCESSING_TIME,
        Cleanup.DEFAULT);
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
    return new StateTtl(ttlMs, renews, visibility, timeDomain, cleanup);
  }

  /** Returns a copy with another visibility. */
  public StateTtl withVisibility(Visibility seen) {
    return new StateTtl(ttlMs, update, seen, timeDomain, cleanup);
  }

  /** Returns a copy by another clock. */
  public StateTtl withTimeDomain(TimeDomain domain) {
    return new StateTtl(ttlMs, update, visibility, domain, cleanup);
  }

  /** Returns a copy with another clean-up. */
  public StateTtl withCleanup(Cleanup strategies) {
    return new StateTtl(ttlMs, update, visibility, timeDomain, strategies);
  }
}
