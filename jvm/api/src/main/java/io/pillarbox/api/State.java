package io.pillarbox.api;

/**
 * A handle on one named state of the current key. Get it by {@link
 * KeyedProcessFunction.OpenContext#getState}.
 *
 * <p>Every call acts on the key whose row or timer is processed, on the mailbox thread only. Every method
 * throws an exception whose message begins with {@code [STATE_WITHOUT_KEY]} while there is no such key, as in
 * {@code open}, and with {@code [STATE_WRONG_THREAD]} on another thread.
 */
public interface State {

  /** Removes what the current key holds in this state. No-op if it holds nothing. */
  void clear();
}
