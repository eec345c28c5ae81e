package io.pillarbox.state.rocksdb.store

import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.OptionConverters._

import io.pillarbox.api.StateTtl.Update
import io.pillarbox.api.{StateDescriptor, StateTtl, TimeDomain}
import io.pillarbox.state.changelog.StateMeta

/**
 * Sets the age after which compaction may drop a state's entries, in whole seconds; 0 for never.
 *
 * A TtlDB timestamps an entry with the wall clock when it is written, which is at or after its own
 * timestamp, and knows nothing of the state's clock. So only processing-time TTL can use it, with a margin,
 * as long as that clock is not further behind than when the database was opened ([[CompactionWatch]] sees
 * to that), and only where a renewed entry is written again: a list read under ON_READ_AND_WRITE renews its
 * elements without writing them. Where compaction joins the parts of a list, it timestamps it anew, which
 * is later still.
 */
private[rocksdb] object CompactionTtl {

  def seconds(descriptor: StateDescriptor[_], margin: Long): Int =
    descriptor.ttl.toScala.filter(isSound(descriptor, _)).fold(0)(ttl => seconds(ttl.ttlMs, margin))

  /** The age at first for restored state, whose descriptor isn't known yet. */
  def seconds(meta: StateMeta, margin: Long): Int =
    if (meta.timeDomain.contains(TimeDomain.PROCESSING_TIME)) seconds(meta.ttl, margin) else 0

  /**
   * True if a column family of age `found` serves a state that wants `wanted`: it must not drop anything
   * sooner, and not much later.
   */
  def fits(found: Int, wanted: Int): Boolean =
    if (wanted == 0) found == 0 else found >= wanted && found / 4 <= wanted

  private def isSound(descriptor: StateDescriptor[_], ttl: StateTtl): Boolean =
    ttl.timeDomain == TimeDomain.PROCESSING_TIME &&
      !(descriptor.kind == StateDescriptor.Kind.LIST && ttl.update == Update.ON_READ_AND_WRITE)

  private def seconds(ttl: Long, margin: Long): Int = {
    val seconds = ttl / 1000 + margin / 1000 + 1
    if (seconds <= Int.MaxValue / 2) seconds.toInt else 0
  }
}

/**
 * The content of the name of a state's column family: the state, which of its column families it is (a
 * migration makes a new one), and the age in seconds after which compaction drops entries, 0 for never.
 */
private[rocksdb] final case class ColumnName(state: String, generation: Int, ttlSeconds: Int) {
  def toBytes: Array[Byte] = s"$generation@$ttlSeconds:$state".getBytes(UTF_8)
}

private[rocksdb] object ColumnName {
  private val Pattern = """(\d+)@(\d+):(.+)""".r

  def parse(bytes: Array[Byte]): Option[ColumnName] = new String(bytes, UTF_8) match {
    case Pattern(generation, ttl, state) => Some(ColumnName(state, generation.toInt, ttl.toInt))
    case _ => None
  }
}
