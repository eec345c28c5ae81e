package io.pillarbox.spark.keyed

import java.util.Comparator

import io.pillarbox.spark.base.PythonText
import io.pillarbox.spark.state.{InitialLayout, StateTaskSpec}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types.{DataType, LongType, StructType, TimestampNTZType, TimestampType}

/**
 * The description of a keyed operator for its tasks, made on the driver and sent to them.
 *
 * @param columns the columns of the rows that come in
 * @param timestamp the column with the event time, of a timestamp type
 * @param orderBy rows of a key within a batch come in this order
 * @param lateWatermark rows up to it are late; `Long.MinValue` where there is no watermark
 * @param watermark event-time timers up to it fire
 * @param batchTime processing time in milliseconds since 1970, at the beginning
 * @param timeZone the session's
 * @param text how errors show values
 * @param maxRowsPerBatch rows of an Arrow batch for Python at most; 0 for no limit but that of the form
 * @param initial the layout of the rows of initial state, if there are any
 * @param isLate true for late rows; none where no row is late
 * @param lateMark the column that tells the function which rows are late, if it gets them
 * @param isRealTime true in real-time mode, where the input blocks until a row comes, processing time goes on
 *   within a micro-batch, and what is due by a watermark fires at the beginning
 */
private[pillarbox] final case class KeyedTaskSpec(
    spec: KeyedSpec,
    factory: KeyedOperatorFactory,
    columns: Seq[Attribute],
    keys: Seq[Attribute],
    timestamp: Option[Attribute],
    orderBy: Seq[Expression],
    isBatch: Boolean,
    hasWatermark: Boolean,
    lateWatermark: Long,
    watermark: Long,
    batchTime: Long,
    timeZone: String,
    text: PythonText,
    metrics: Map[String, SQLMetric],
    maxRowsPerBatch: Int,
    initial: Option[InitialLayout] = None,
    isLate: Option[Expression] = None,
    lateMark: Option[Attribute] = None,
    isRealTime: Boolean = false
) {

  /** The part of it that the storage of its state needs. */
  def state: StateTaskSpec = StateTaskSpec(spec.name, spec.storage, keySchema, watermark, batchTime, metrics)

  /** True if event-time timers can fire. */
  def hasEventTime: Boolean = isBatch || hasWatermark

  /** The ordinals of the columns that the function gets, in its order; the mark of late rows is none of them. */
  def functionColumns: Seq[Int] =
    if (spec.inputs.isEmpty) columns.indices else spec.inputs.map(inputSchema.fieldIndex)

  /** The columns of the rows that the operator gets. */
  def input: Seq[Attribute] = columns ++ lateMark

  /** The schema of the rows that come in. */
  def inputSchema: StructType = DataTypeUtils.fromAttributes(columns)

  def keySchema: StructType = DataTypeUtils.fromAttributes(keys)

  /** The expressions of the key, over an input row. */
  def boundKeys: Seq[Expression] = BindReferences.bindReferences(keys.map(SparkAdapter.normalizeKey), input)

  /** The ordinal of the key in an input row if it is one column of eight bytes as they are; else -1. */
  def wordOrdinal: Int = keys match {
    case Seq(key) if KeyedTaskSpec.isWord(key.dataType) => input.indexWhere(_.exprId == key.exprId)
    case _ => -1
  }

  /** The ordinal of the event time in an input row, -1 without one. */
  def timestampOrdinal: Int = timestamp.fold(-1)(column => input.indexWhere(_.exprId == column.exprId))

  /** The order of rows of one key and time in time-sorted input: time in microseconds, order_by, content. */
  def tieOrder(): Comparator[UnsafeRow] = {
    val columns = timestamp.toSeq ++ orderBy
    val ordering = RowOrdering.create(columns.map(SortOrder(_, Ascending)), input)
    (left, right) => {
      val byColumns = ordering.compare(left, right)
      if (byColumns != 0) byColumns else KeyedTaskSpec.byBytes.compare(left, right)
    }
  }

  require(
    timestamp.forall(column => column.dataType == TimestampType || column.dataType == TimestampNTZType),
    s"${spec.name}: the event time must be a timestamp, ${timestamp.fold("")(_.sql)} is not"
  )
}

private[pillarbox] object KeyedTaskSpec {

  /**
   * The value of `spark.sql.execution.arrow.maxRecordsPerBatch` if it is set, else 0. Spark's default is made
   * for batches that are sent once; a frame comes with the state of its keys, so that smaller ones send more
   * of it.
   */
  def maxRowsPerBatch(conf: SQLConf): Int = {
    val setting = SQLConf.ARROW_EXECUTION_MAX_RECORDS_PER_BATCH
    if (conf.contains(setting.key)) math.max(conf.getConf(setting), 0) else 0
  }

  /** A total order of rows by their bytes, for rows that nothing else distinguishes. */
  private val byBytes: Comparator[UnsafeRow] =
    (left, right) => java.util.Arrays.compareUnsigned(left.getBytes, right.getBytes)

  /** Excludes floating point, where zeros and NaNs are normalized. */
  private def isWord(dataType: DataType): Boolean =
    dataType == LongType || dataType == TimestampType || dataType == TimestampNTZType

  /** The milliseconds of a literal of a timestamp type. */
  def millisOf(timestamp: Expression): Long = Math.floorDiv(timestamp.eval().asInstanceOf[Long], 1000L)
}
