package io.pillarbox.spark.keyed

import java.util.Comparator

import io.pillarbox.spark.state.{InitialLayout, StateTaskSpec}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types.{DataType, LongType, StructType, TimestampNTZType, TimestampType}

/**
 * What the tasks of one keyed operator need, made on the driver and sent to them.
 *
 * @param input
 *   the columns of the rows that come in
 * @param timestamp
 *   the column with the event time, of a timestamp type
 * @param orderBy
 *   rows of a key within a batch come in this order
 * @param lateWatermark
 *   rows up to it have been dropped; `Long.MinValue` where there is no watermark
 * @param watermark
 *   event-time timers up to it fire
 * @param batchTime
 *   processing time in milliseconds since 1970
 * @param timeZone
 *   of the session
 * @param maxRowsPerBatch
 *   of an Arrow batch of rows for Python; 0 for no limit but that of the form
 * @param initial
 *   what the rows of initial state look like, if there are any
 */
private[pillarbox] final case class KeyedTaskSpec(
    spec: KeyedSpec,
    factory: KeyedOperatorFactory,
    input: Seq[Attribute],
    keys: Seq[Attribute],
    timestamp: Option[Attribute],
    orderBy: Seq[Attribute],
    isBatch: Boolean,
    hasWatermark: Boolean,
    lateWatermark: Long,
    watermark: Long,
    batchTime: Long,
    timeZone: String,
    metrics: Map[String, SQLMetric],
    maxRowsPerBatch: Int,
    initial: Option[InitialLayout] = None
) {

  /** What is said of it to whatever keeps its state. */
  def state: StateTaskSpec = StateTaskSpec(spec.storage, keySchema, watermark, batchTime, metrics)

  /** Whether event-time timers can fire. */
  def hasEventTime: Boolean = isBatch || hasWatermark

  def inputSchema: StructType = DataTypeUtils.fromAttributes(input)

  def keySchema: StructType = DataTypeUtils.fromAttributes(keys)

  def keyProjection(): Projection =
    UnsafeProjection.create(BindReferences.bindReferences(keys.map(SparkAdapter.normalizeKey), input))

  /**
   * Where the key is in an input row, if it is one column whose eight bytes are the key's as they are; else
   * -1.
   */
  def wordOrdinal: Int = keys match {
    case Seq(key) if KeyedTaskSpec.isWord(key.dataType) => input.indexWhere(_.exprId == key.exprId)
    case _ => -1
  }

  /** Where the event time is in an input row, -1 without one. */
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
   * `spark.sql.execution.arrow.maxRecordsPerBatch` where somebody has set it. Spark's default is made for
   * batches that are sent once; a frame comes with the state of its keys, so that smaller ones send more of
   * it.
   */
  def maxRowsPerBatch(conf: SQLConf): Int = {
    val setting = SQLConf.ARROW_EXECUTION_MAX_RECORDS_PER_BATCH
    if (conf.contains(setting.key)) math.max(conf.getConf(setting), 0) else 0
  }

  /** A total order of rows by their bytes, for rows that nothing else tells apart. */
  private val byBytes: Comparator[UnsafeRow] =
    (left, right) => java.util.Arrays.compareUnsigned(left.getBytes, right.getBytes)

  /** Not floating point, where zeros and NaNs are made one. */
  private def isWord(dataType: DataType): Boolean =
    dataType == LongType || dataType == TimestampType || dataType == TimestampNTZType

  /** A literal of a timestamp type in milliseconds. */
  def millisOf(timestamp: Expression): Long = Math.floorDiv(timestamp.eval().asInstanceOf[Long], 1000L)
}
