package io.pillarbox.spark.state

import java.util.Locale

import com.fasterxml.jackson.annotation.JsonProperty
import io.pillarbox.api.StateDescriptor.Kind
import io.pillarbox.api.{StateDescriptor, TimeDomain}
import io.pillarbox.state._
import io.pillarbox.state.ttl.TtlPolicy
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.types._

/**
 * The layout of the rows of initial state, whose first columns are the keys.
 *
 * @param columns the columns of the rows: the keys, then one for each of `states`, then one to sort by
 * @param states the content of each column after the keys
 */
private[pillarbox] final case class InitialLayout(columns: Seq[Attribute], states: Seq[InitialColumn])

/**
 * A column of initial state.
 *
 * @param state the name of the state, or [[InitialState.Timers]]
 * @param isEntry true for a struct of `value`, `timestamp`, and a map's `map_key`, as stored state is
 *   read, one row an entry; otherwise all that a key has in the state
 */
private[pillarbox] final case class InitialColumn(
    state: String,
    @JsonProperty("entry") isEntry: Boolean = false
)

/** Initial state for the tasks of the first micro-batch, partitioned as their input is. */
private[pillarbox] final case class InitialRows(layout: InitialLayout, rows: RDD[InternalRow])

/**
 * A state of an operator that takes initial values.
 *
 * @param valueType Catalyst's type of the value, accumulator, element or entry
 * @param mapKeyType Catalyst's type of a map's keys, else null
 * @param write takes a map's key (or null), a value for the current key, and its time in milliseconds,
 *   Unknown for a write that happens now
 */
private[pillarbox] final case class InitialTarget(
    kind: Kind,
    valueType: DataType,
    mapKeyType: DataType,
    write: (Any, Any, Long) => Unit
) {

  /** The type of all that a key can have in it. */
  def wholeType: DataType = kind match {
    case Kind.LIST => ArrayType(valueType)
    case Kind.MAP => MapType(mapKeyType, valueType)
    case _ => valueType
  }
}

private[pillarbox] object InitialTarget {

  /** @param toKey from what is shown of a map's key to what the state has; `toValue` likewise */
  private[pillarbox] def of(
      backend: KeyedStateBackend[_],
      descriptor: StateDescriptor[_],
      valueType: DataType,
      mapKeyType: DataType
  )(toKey: Any => Any, toValue: Any => Any): InitialTarget = {
    val policy = TtlPolicy.of(descriptor, backend)
    def timestampAt(time: Long): Long =
      if (time == StateClock.Unknown) policy.fold(time)(policy => policy.timestampAt(policy.now)) else time
    val write: (Any, Any, Long) => Unit = descriptor.kind match {
      case Kind.LIST =>
        val state = backend.timestampedList[Any](descriptor)
        (_, value, time) => state.add(toValue(value), timestampAt(time))
      case Kind.MAP =>
        val state = backend.timestampedMap[Any, Any](descriptor)
        (key, value, time) => state.put(toKey(key), toValue(value), timestampAt(time))
      case _ =>
        val state = backend.timestampedValue[Any](descriptor)
        (_, value, time) => state.put(toValue(value), timestampAt(time))
    }
    InitialTarget(descriptor.kind, valueType, mapKeyType, write)
  }
}

private[pillarbox] object InitialState {

  /** The name that stands for the timers, in the place of a state's. */
  final val Timers = StateNames.Reserved + "timers"

  /** The name of a time domain in DataFrames and in Python. */
  def nameOf(domain: TimeDomain): String = domain.name.toLowerCase(Locale.ROOT)

  private[pillarbox] def domainOf(name: String): Option[TimeDomain] =
    TimeDomain.values.find(nameOf(_) == name)
}
