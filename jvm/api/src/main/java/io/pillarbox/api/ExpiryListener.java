package io.pillarbox.api;

import java.io.Serializable;

/** Is told of expired values. */
@FunctionalInterface
public interface ExpiryListener extends Serializable {

  /**
   * Called on the mailbox thread, once for each expired value that a read or an incremental clean-up meets,
   * after its removal and without a current key: it must not use keyed state. Compaction, the filter of full
   * snapshots and a write over an expired value don't call it.
   *
   * @param key as the function sees keys; a Spark {@code Row} for {@code pb.JvmFunction}
   * @param userKey of a map's entry; null for the other kinds of state
   */
  void onExpire(Object key, Object userKey, Object value);
}
