package io.pillarbox.operator

import scala.collection.mutable

import io.pillarbox.api.KeyedProcessFunction.OpenContext
import io.pillarbox.api.{State, StateDescriptor}
import io.pillarbox.state.{KeyedStateBackend, StateNames}

/**
 * Gives a function its states when it is opened, and keeps them by name in the order in which it asked for
 * them.
 *
 * @param shown shows a key as the function sees it, for its listeners of expired values
 */
private[pillarbox] final class FunctionStates[K](
    override val operatorName: String,
    backend: KeyedStateBackend[K],
    shown: K => Any
) extends OpenContext {
  private val handles = mutable.LinkedHashMap.empty[String, (StateDescriptor[_], State)]

  /** @throws java.lang.IllegalArgumentException if the name is one of Pillarbox's own */
  override def getState[S <: State](descriptor: StateDescriptor[S]): S = {
    StateNames.check(descriptor.name)
    val asked = withShownKeys(descriptor)
    val handle = backend.getOrCreate(asked)
    handles(asked.name) = (asked, handle)
    handle
  }

  private def withShownKeys[S <: State](descriptor: StateDescriptor[S]): StateDescriptor[S] =
    descriptor.expiryListener
      .map[StateDescriptor[S]] { listener =>
        descriptor.withExpiryListener { (key, userKey, value) =>
          listener.onExpire(shown(key.asInstanceOf[K]), userKey, value)
        }
      }
      .orElse(descriptor)

  def all: Map[String, StateDescriptor[_]] = handles.map { case (name, (descriptor, _)) =>
    name -> descriptor
  }.toMap

  /** Removes what the current key has in the function's states. */
  def clear(): Unit = handles.valuesIterator.foreach(_._2.clear())
}
