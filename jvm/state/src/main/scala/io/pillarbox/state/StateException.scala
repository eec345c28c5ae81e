package io.pillarbox.state

import java.util.ConcurrentModificationException

/**
 * The failures of state. `condition` is a stable name for programs; the message says what was wrong, the
 * value found and what to do.
 */
private[pillarbox] sealed class StateException(
    val condition: String,
    message: String,
    cause: Throwable = null
) extends RuntimeException(s"[$condition] $message", cause)

/** Keyed state was used where it must not be: without a current key, from another thread, after close. */
private[pillarbox] final class StateAccessException(condition: String, message: String)
    extends StateException(condition, message)

/** A state was registered in a way that clashes with what is there. Nothing was changed. */
private[pillarbox] final class StateRegistrationException(condition: String, message: String)
    extends StateException(condition, message)

/** A snapshot, log or database can't be read; the message names the file. Nothing of it should be used. */
private[pillarbox] final class StateRestoreException(
    condition: String,
    message: String,
    cause: Throwable = null
) extends StateException(condition, message, cause)

private[pillarbox] object StateRestoreException {

  /** @param what has the format, with the name of its file */
  def otherFormat(what: String, found: Int, read: Int): StateRestoreException = new StateRestoreException(
    "STATE_FORMAT_UNKNOWN",
    s"$what has format version $found, this Pillarbox reads $read: use the release that wrote it"
  )
}

/** The store under a backend failed; the message names its directory. The backend must be closed. */
private[pillarbox] final class StateBackendException(condition: String, message: String, cause: Throwable)
    extends StateException(condition, message, cause)

private[state] object StateErrors {

  def noCurrentKey: StateAccessException = new StateAccessException(
    "STATE_WITHOUT_KEY",
    "Keyed state was used while no key is set: use it only while a record or timer of a key is processed"
  )

  def wrongThread(owner: Thread): StateAccessException = new StateAccessException(
    "STATE_WRONG_THREAD",
    s"State, timers and output belong to thread '${owner.getName}' and were used from " +
      s"'${Thread.currentThread.getName}': use them only inside the function's own methods"
  )

  def closed: StateAccessException =
    new StateAccessException("STATE_CLOSED", "The state backend is closed: open a new one")

  def nullValue(state: String, what: String): IllegalArgumentException =
    new IllegalArgumentException(
      s"State '$state' was given null as $what: null is not a value, clear or remove it"
    )

  /** @param kind "Map" or "List" */
  def changed(kind: String, state: String): ConcurrentModificationException =
    new ConcurrentModificationException(s"$kind state '$state' or its key changed while it was read")

  def ends(kind: String, state: String): NoSuchElementException =
    new NoSuchElementException(s"The $kind of state '$state' ends here")

  def nothingToRemove: IllegalStateException =
    new IllegalStateException("remove() takes away what next() returned last: call next() first")

  def entryGone(state: String): IllegalStateException = new IllegalStateException(
    s"The entry is no longer in map state '$state': put it, instead of setting its value"
  )

  def clash(name: String, what: String, registered: Any, wanted: Any): StateRegistrationException =
    new StateRegistrationException(
      "STATE_NAME_CLASH",
      s"State '$name' is registered with $what $registered and can't be registered again with $wanted: " +
        "give one of the two another name"
    )

  def incompatible(name: String, what: String, reason: String): StateRegistrationException =
    new StateRegistrationException(
      "STATE_SCHEMA_INCOMPATIBLE",
      s"State '$name' was written with another $what: $reason. Keep the old type, or use a new state name"
    )
}
