package io.pillarbox.spark.keyed.scan

import io.pillarbox.spark.base.SpecJson
import io.pillarbox.spark.state.TtlSpec

/** A column of a scan's state, in SQL: its value before a key's first row, and after each row. */
private[pillarbox] final case class ScanColumn(name: String, init: String, update: String)

/**
 * The state and the results of a scan.
 *
 * @param select the columns of the rows that it puts out, over row and new state; empty for all of both
 */
private[pillarbox] final case class ScanSpec(
    state: Seq[ScanColumn] = Nil,
    select: Seq[String] = Nil,
    ttl: Option[TtlSpec]
)

private[pillarbox] object ScanSpec {

  /** @throws IllegalArgumentException if a field is missing or has no meaning */
  def fromJson(json: String): ScanSpec = {
    val spec = SpecJson.read[ScanSpec](json)
    if (spec.state.isEmpty) throw new IllegalArgumentException("A scan needs a state of one column at least")
    spec
  }
}
