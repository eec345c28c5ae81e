package io.pillarbox.spark.state

import io.pillarbox.api.{StateTtl, TimeDomain}
import io.pillarbox.spark.base.SpecJson

/** A TTL as the Python API sends it. */
private[pillarbox] final case class TtlSpec(
    ms: Long,
    update: String = "on_create_and_write",
    visibility: String = "never_return_expired",
    timeDomain: String = "processing_time"
) {

  /** @throws IllegalArgumentException if a field has no meaning */
  def config: StateTtl = new StateTtl(
    ms,
    SpecJson.valueOf("update of a TTL", update, StateTtl.Update.values),
    SpecJson.valueOf("visibility of a TTL", visibility, StateTtl.Visibility.values),
    SpecJson.valueOf("time_domain of a TTL", timeDomain, TimeDomain.values)
  )
}
