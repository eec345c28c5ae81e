package io.pillarbox.state.heap

import java.util

import io.pillarbox.api.TypeSerializer
import io.pillarbox.state.Namespace

/**
 * Maps (key, namespace) to one object: a value, an accumulator, a [[HeapList]] or a [[MapChain]]. An entry
 * whose object is null is a tombstone. Not thread-safe.
 */
private[heap] final class KeyTable[K](
    serializer: TypeSerializer[K],
    hasTimestamps: Boolean,
    tracksChanges: Boolean
) extends DenseTable(hasTimestamps, tracksChanges) {

  /** Key and object of an entry beside each other, since they are read together. */
  private var slots = new Array[AnyRef](2 * DenseTable.InitialEntries)

  /** Null as long as all namespaces are void. */
  private var namespaces: Array[Namespace] = null

  def key(entry: Int): K = slots(2 * entry).asInstanceOf[K]

  /** The object, null for a tombstone. */
  def value(entry: Int): AnyRef = slots(2 * entry + 1)

  def setValue(entry: Int, value: AnyRef): Unit = slots(2 * entry + 1) = value

  def namespace(entry: Int): Namespace = if (namespaces == null) Namespace.Void else namespaces(entry)

  override def isUsed(entry: Int): Boolean = slots(2 * entry) != null

  /** Finds the position of an entry, or -1. */
  def find(key: K, keyHash: Int, namespace: Namespace): Int = {
    val hash = KeyTable.hash(keyHash, namespace)
    val mask = index.length - 1
    var slot = firstSlot(hash)
    var found = -2
    while (found == -2) {
      val word = index(slot)
      if (word == 0L) found = -1
      else if ((word >>> 32).toInt == hash && matches(DenseTable.positionAt(word), key, namespace)) {
        found = DenseTable.positionAt(word)
        lastSlot = slot
      }
      slot = (slot + 1) & mask
    }
    found
  }

  /** Adds an entry for a key that [[find]] did not find, without its object. A mutable key is copied. */
  def insert(key: K, keyHash: Int, namespace: Namespace): Int = {
    val entry = allocate(KeyTable.hash(keyHash, namespace))
    slots(2 * entry) = serializer.copy(key).asInstanceOf[AnyRef]
    if (!namespace.isVoid && namespaces == null) {
      namespaces = new Array[Namespace](hashes.length)
      util.Arrays.fill(namespaces.asInstanceOf[Array[AnyRef]], Namespace.Void)
    }
    if (namespaces != null) namespaces(entry) = namespace
    entry
  }

  /** Removes the object: the entry is freed, or a tombstone if the next commit must write its removal. */
  def remove(entry: Int): Unit =
    if (isCommitted(entry)) {
      setValue(entry, null)
      if (timestamps != null) timestamps(entry) = Long.MaxValue
      touch(entry)
      removals += 1
    } else free(entry)

  private def matches(entry: Int, key: K, namespace: Namespace): Boolean = {
    val own = slots(2 * entry)
    ((own eq key.asInstanceOf[AnyRef]) || serializer.equal(own.asInstanceOf[K], key)) &&
    (if (namespaces == null) namespace.isVoid else namespaces(entry) == namespace)
  }

  override protected def growColumns(capacity: Int): Unit = {
    slots = util.Arrays.copyOf(slots, 2 * capacity)
    if (namespaces != null) namespaces = util.Arrays.copyOf(namespaces, capacity)
  }

  override protected def clearColumns(entry: Int): Unit = {
    slots(2 * entry) = null
    slots(2 * entry + 1) = null
  }
}

private[heap] object KeyTable {
  private def hash(keyHash: Int, namespace: Namespace): Int =
    if (namespace.isVoid) keyHash else keyHash * 31 + namespace.hashCode
}
