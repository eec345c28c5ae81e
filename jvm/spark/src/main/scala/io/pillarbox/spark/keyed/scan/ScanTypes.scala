package io.pillarbox.spark.keyed.scan

import io.pillarbox.spark.keyed.{KeyedErrors, ScanColumn}
import org.apache.spark.sql.catalyst.expressions.{Cast, EvalMode, Expression}
import org.apache.spark.sql.pillarbox.{LosslessTypes, SparkAdapter}
import org.apache.spark.sql.types.{DataType, DoubleType, FloatType, NumericType}

/**
 * Finds the types of a scan's state: the smallest that hold the initial values and, over state of these
 * types, all updates. Nothing is rounded or cut.
 *
 * @param updates the updates over state of the given types
 */
private final class ScanTypes(
    operator: String,
    columns: Seq[ScanColumn],
    initials: Seq[Expression],
    updates: Seq[DataType] => Seq[Expression]
) {

  /** @throws IllegalArgumentException (SCAN_STATE_TYPE) if there are none, with what to write */
  def settle(): Seq[DataType] = {
    var types = initials.map(initial => SparkAdapter.asNullable(initial.dataType))
    var wider = widened(types)
    var rounds = 1
    while (wider != types) {
      if (rounds == ScanTypes.MostRounds) unsettled(types, wider)
      types = wider
      wider = widened(types)
      rounds += 1
    }
    types
  }

  private def widened(types: Seq[DataType]): Seq[DataType] =
    columns.indices.zip(updates(types)).map { case (i, update) =>
      val found = SparkAdapter.asNullable(update.dataType)
      LosslessTypes
        .common(types(i), found)
        .orElse(Option.when(isExactly(initials(i), found))(found))
        .getOrElse(throw misfit(i, types(i), found))
    }

  /** True if a constant is exact in that floating-point type: 0.0 is a decimal, and as good a double. */
  private def isExactly(initial: Expression, dataType: DataType): Boolean =
    initial.foldable && initial.dataType.isInstanceOf[NumericType] &&
      (dataType == DoubleType || dataType == FloatType) && {
        val there = Cast(initial, dataType, evalMode = EvalMode.TRY)
        Cast(there, initial.dataType, evalMode = EvalMode.TRY).eval() == initial.eval()
      }

  private def unsettled(types: Seq[DataType], wider: Seq[DataType]): Nothing = {
    val i = types.indices.find(i => types(i) != wider(i)).get
    throw misfit(i, types(i), wider(i))
  }

  /** Suggests a cast: of the initial value as long as only that is in the way, else of the update. */
  private def misfit(i: Int, known: DataType, found: DataType): IllegalArgumentException = {
    val column = columns(i)
    val cast =
      if (known == SparkAdapter.asNullable(initials(i).dataType)) s"CAST(${column.init} AS ${found.sql})"
      else s"CAST(${column.update} AS ${known.sql})"
    KeyedErrors.refused(
      "SCAN_STATE_TYPE",
      operator,
      "state" -> column.name,
      "update" -> column.update,
      "known" -> known.sql,
      "found" -> found.sql,
      "cast" -> cast
    )
  }
}

private object ScanTypes {

  /** The digits of a decimal grow one by one: after more rounds than they can take, a type grows for ever. */
  private final val MostRounds = 100
}
