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
    SpecJson.choice(
      "update of a TTL",
      update,
      "on_create_and_write" -> StateTtl.Update.ON_CREATE_AND_WRITE,
      "on_read_and_write" -> StateTtl.Update.ON_READ_AND_WRITE
    ),
    SpecJson.choice(
      "visibility of a TTL",
      visibility,
      "never_return_expired" -> StateTtl.Visibility.NEVER_RETURN_EXPIRED,
      "return_expired_if_not_cleaned_up" -> StateTtl.Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP
    ),
    SpecJson.choice(
      "time_domain of a TTL",
      timeDomain,
      "processing_time" -> TimeDomain.PROCESSING_TIME,
      "event_time" -> TimeDomain.EVENT_TIME
    ),
    StateTtl.Cleanup.DEFAULT
  )
}
