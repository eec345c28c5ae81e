package io.pillarbox.bench

import io.pillarbox.async.queue.AsyncOutput
import java.util

import org.apache.flink.streaming.api.operators.Output
import org.apache.flink.streaming.api.watermark.Watermark
import org.apache.flink.streaming.runtime.streamrecord.{LatencyMarker, RecordAttributes, StreamRecord}
import org.apache.flink.streaming.runtime.watermarkstatus.WatermarkStatus
import org.apache.flink.util.OutputTag

/** Counts what Flink's operator emits. */
final class FlinkOutput extends Output[StreamRecord[java.lang.Long]] {
  var count = 0L

  override def collect(record: StreamRecord[java.lang.Long]): Unit = count += record.getValue.longValue
  override def collect[X](tag: OutputTag[X], record: StreamRecord[X]): Unit = ()
  override def emitWatermark(mark: Watermark): Unit = count += 1
  override def emitWatermarkStatus(status: WatermarkStatus): Unit = ()
  override def emitLatencyMarker(marker: LatencyMarker): Unit = ()
  override def emitRecordAttributes(attributes: RecordAttributes): Unit = ()
  override def emitWatermark(watermark: org.apache.flink.runtime.event.WatermarkEvent): Unit = ()
  override def close(): Unit = ()
}

/** Counts what our operator emits. */
final class PillarboxOutput extends AsyncOutput[java.lang.Long, java.lang.Long] {
  var count = 0L

  override def emit(
      input: java.lang.Long,
      timestampMs: Long,
      results: util.Collection[java.lang.Long]
  ): Unit =
    results.forEach(row => count += row.longValue)
  override def emitOne(input: java.lang.Long, timestampMs: Long, result: java.lang.Long): Unit =
    count += result.longValue
}
