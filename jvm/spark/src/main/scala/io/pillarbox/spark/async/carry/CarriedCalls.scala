package io.pillarbox.spark.async.carry

import io.pillarbox.spark.checkpoint._
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection

/** Reads what slots hold in a checkpoint, in figures. On the driver. */
private[pillarbox] object CarriedCalls {

  /** True if there are calls in flight, or results that wait. */
  def areIn(stored: StoredOperators): Boolean = stored.parts(_.carriesCalls)(holds).exists(identity)

  /** True if a version of a slot holds anything. */
  def holds(metadata: OperatorMetadata, slot: StateFolder, version: StateVersion): Boolean = {
    val (input, answers) =
      (metadata.columns(OperatorMetadata.Input), metadata.columns(OperatorMetadata.Returns))
    val format = new SlotStateFormat(input.length, answers.length, UnsafeProjection.create(answers))
    val committed = new StateHistory(slot).accepted(version)
    !new SlotStore(slot, format, metadata.since).state(committed).report.isEmpty
  }
}
