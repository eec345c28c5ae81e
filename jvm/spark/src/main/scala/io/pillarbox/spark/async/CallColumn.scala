package io.pillarbox.spark.async

import java.util.{ArrayList => JArrayList, Collection => JCollection}

import io.pillarbox.metered.usage.{CallAccount, Usage}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow}
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The column that `call_column` adds. Of the rows of one answer the first has its attempts and what they
 * used, so that the sum over rows is what was paid. `python/src/pillarbox/_async/python_output.py` makes the
 * same.
 */
private[pillarbox] object CallColumn {

  /** Returns the rows with the column behind them. */
  def add(account: CallAccount, rows: JCollection[InternalRow]): JCollection[InternalRow] = {
    val all = new JArrayList[InternalRow](rows.size)
    rows.forEach(row => all.add(new JoinedRow(row, cell(account, isFirst = all.isEmpty))): Unit)
    all
  }

  private def cell(account: CallAccount, isFirst: Boolean): InternalRow = {
    val attempts = if (isFirst) account.attempts else 0
    val usage = mapOf(if (isFirst) account.usage else null)
    val id = UTF8String.fromString(account.callId)
    val told = Array[Any](id, attempts, account.elapsedMs, account.isFromJournal, usage)
    new GenericInternalRow(Array[Any](new GenericInternalRow(told)))
  }

  private def mapOf(usage: Usage): ArrayBasedMapData = {
    val (used, sums) = (if (usage == null) Nil else usage.amounts.filter(_._2 > 0)).unzip
    ArrayBasedMapData(used.map(UTF8String.fromString).toArray[Any], sums.toArray[Any])
  }

  val Type: StructType = new StructType()
    .add("call_id", StringType)
    .add("attempts", IntegerType)
    .add("elapsed_ms", LongType)
    .add("from_journal", BooleanType)
    .add("usage", MapType(StringType, DoubleType))
}
