package io.pillarbox.state

import java.util.AbstractMap.SimpleEntry

/** An entry that an iteration returned; a new value of it goes into the map by `replace`. */
private[state] final class LiveEntry[UK, UV](key: UK, value: UV, replace: (UK, UV) => Unit)
    extends SimpleEntry[UK, UV](key, value) {

  override def setValue(value: UV): UV = {
    replace(getKey, value)
    super.setValue(value)
  }
}
