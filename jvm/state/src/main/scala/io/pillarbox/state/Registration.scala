package io.pillarbox.state

import io.pillarbox.api.{StateDescriptor, TypeSerializer}

/** Checks that one name has one type. */
private[state] object Registration {

  /** @throws StateRegistrationException if the two differ in anything but their functions */
  def checkSame(registered: StateDescriptor[_], wanted: StateDescriptor[_]): Unit = {
    def check(what: String, left: Any, right: Any): Unit =
      if (left != right) throw StateErrors.clash(registered.name, what, left, right)
    check("kind", registered.kind, wanted.kind)
    check("value type", snapshot(registered.valueSerializer), snapshot(wanted.valueSerializer))
    check("map key type", snapshot(registered.userKeySerializer), snapshot(wanted.userKeySerializer))
    check("TTL", registered.ttl, wanted.ttl)
  }

  private def snapshot(serializer: TypeSerializer[_]): Any =
    if (serializer == null) "none" else serializer.snapshot
}
