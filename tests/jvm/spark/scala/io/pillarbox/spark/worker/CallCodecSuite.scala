package io.pillarbox.spark.worker

import java.nio.ByteBuffer
import java.util.{Arrays => JArrays}

import io.pillarbox.metered.journal.CallKey
import io.pillarbox.spark.async.python.{CallEncoder, PythonCall, ResultDecoder}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

class CallCodecSuite extends AnyFunSuite {
  private val schema = StructType.fromDDL("x long, y string")
  private val arrow = SparkAdapter.arrowSchema(schema, "UTC", largeVarTypes = false)

  test("rows that are sent as calls come back the same as results, one call or many") {
    val encoder = new CallEncoder(arrow, identity, (_, elementId) => CallKey(elementId, -elementId))
    val decoder = new ResultDecoder(arrow, schema)
    try
      for (n <- Seq(1, 1000, 3)) {
        val rows = (0 until n).map(i => row(i.toLong, if (i % 3 == 0) null else s"text $i"))
        val decoded = decoder.decode(answer(encoder, rows))
        assert(decoded.elementIds.toSeq == (0 until n).map(_.toLong))
        assert(
          decoded.rows.map(r => (r.getLong(0), r.getUTF8String(1))).toSeq == rows
            .map(r => (r.getLong(0), r.getUTF8String(1)))
        )
      }
    finally {
      encoder.close()
      decoder.close()
    }
  }

  test("columns that Arrow does not bring are null") {
    val encoder = new CallEncoder(arrow, identity, (_, elementId) => CallKey(elementId, -elementId))
    val decoder = new ResultDecoder(arrow, schema.add("error", StringType))
    try {
      val decoded = decoder.decode(answer(encoder, Seq(row(1, "a"))))
      assert(decoded.rows.head.numFields == 3 && decoded.rows.head.isNullAt(2))
    } finally {
      encoder.close()
      decoder.close()
    }
  }

  test("rows stay as they are when another task of the run decodes its own") {
    val run = Some("a run")
    val encoder = new CallEncoder(arrow, identity, (_, elementId) => CallKey(elementId, -elementId))
    def decoded(x: Long, y: String) = {
      val decoder = new ResultDecoder(arrow, schema, run)
      try decoder.decode(answer(encoder, Seq(row(x, y)))).rows.head
      finally decoder.close()
    }
    try {
      val (first, second) = (decoded(1, "a"), decoded(2, "b"))
      assert(Seq(first, second).map(r => r.getLong(0) -> r.getString(1)) == Seq(1L -> "a", 2L -> "b"))
    } finally encoder.close()
  }

  private def row(x: Long, y: String): InternalRow = new GenericInternalRow(
    Array[Any](x, UTF8String.fromString(y))
  )

  /**
   * What a worker that echoes its rows answers: ids, attempts, a count of one each, the same record batch.
   */
  private def answer(encoder: CallEncoder, rows: Seq[InternalRow]): Frame = {
    val calls = rows.zipWithIndex.map { case (row, i) => PythonCall(i.toLong, 1, row) }
    val counts = Frame.buffer(4 * rows.size)
    rows.foreach(_ => counts.putInt(1))
    var frame: Frame = null
    encoder.encode(
      JArrays.asList(calls: _*),
      (body, _) => frame = new Frame(Frame.Results, joined(body.head +: counts.flip() +: body.drop(2): _*)),
      (_, bytes) => fail(s"a row of $bytes bytes")
    )
    frame
  }

  private def joined(parts: ByteBuffer*): ByteBuffer = {
    val whole = Frame.buffer(parts.map(_.remaining).sum)
    parts.foreach(part => whole.put(part))
    whole.flip()
  }
}
