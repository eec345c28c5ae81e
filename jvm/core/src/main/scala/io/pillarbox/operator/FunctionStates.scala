package io.pillarbox.operator

import scala.collection.mutable

import io.pillarbox.api.KeyedProcessFunction.OpenContext
import io.pillarbox.api.{State, StateDescriptor}
import io.pillarbox.state.KeyedStateBackend

/** The states that a function gets when it is opened, by name in the order in which it asked for them. */
private[pillarbox] final class FunctionStates(backend: KeyedStateBackend[_]) extends OpenContext {
  private val handles = mutable.LinkedHashMap.empty[String, (StateDescriptor[_], State)]

  override def getState[S <: State](descriptor: StateDescriptor[S]): S = {
    val handle = backend.getOrCreate(descriptor)
    handles(descriptor.name) = (descriptor, handle)
    handle
  }

  def all: Map[String, StateDescriptor[_]] = handles.map { case (name, (descriptor, _)) =>
    name -> descriptor
  }.toMap

  /** Removes what the current key has in them. */
  def clear(): Unit = handles.valuesIterator.foreach(_._2.clear())
}
