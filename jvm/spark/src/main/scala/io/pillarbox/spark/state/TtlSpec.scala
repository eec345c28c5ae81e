package io.pillarbox.spark.state

import io.pillarbox.spark.base.SpecJson
import io.pillarbox.state.StateTtlConfig

/** A TTL as the Python API sends it. */
final case class TtlSpec(
    ms: Long,
    update: String = "on_create_and_write",
    visibility: String = "never_return_expired",
    time: String = "processing"
) {

  /** @throws IllegalArgumentException if a field has no meaning */
  def config: StateTtlConfig = StateTtlConfig(
    ms,
    SpecJson.choice(
      "update of a TTL",
      update,
      "on_create_and_write" -> StateTtlConfig.OnCreateAndWrite,
      "on_read_and_write" -> StateTtlConfig.OnReadAndWrite,
      "disabled" -> StateTtlConfig.Disabled
    ),
    SpecJson.choice(
      "visibility of a TTL",
      visibility,
      "never_return_expired" -> StateTtlConfig.NeverReturnExpired,
      "return_expired_if_not_cleaned_up" -> StateTtlConfig.ReturnExpiredIfNotCleanedUp
    ),
    SpecJson.choice(
      "time of a TTL",
      time,
      "processing" -> StateTtlConfig.ProcessingTime,
      "event" -> StateTtlConfig.EventTime
    )
  )
}
