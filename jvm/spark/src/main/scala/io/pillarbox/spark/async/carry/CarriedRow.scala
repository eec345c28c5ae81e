package io.pillarbox.spark.async.carry

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{JoinedRow, UnsafeRow}

/**
 * An input row in flight.
 *
 * @param row a copy, which nobody changes
 * @param holdMicros its event time, behind which the output watermark stays, in µs since 1970;
 *   `Long.MaxValue` for a row that holds nothing back: it has no time, or was late when it came
 */
private[carry] final class CarriedRow(val row: UnsafeRow, val holdMicros: Long)
    extends JoinedRow(row, InternalRow.empty)
