package io.pillarbox.spark.worker

import java.nio.ByteBuffer
import java.util.{Arrays => JArrays}

import scala.collection.mutable.ArrayBuffer
import scala.util.Using

import io.pillarbox.metered.journal.CallKey
import io.pillarbox.spark.async.python.{CallEncoder, CallResults, PythonCall, ResultDecoder}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection}
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String
import org.scalacheck.{Gen, Shrink}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class ArrowBatchWriterSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val schema = StructType.fromDDL("x long, y string")
  private val arrow = SparkAdapter.arrowSchema(schema, "UTC", largeVarTypes = false)
  private val size = FrameSize(cut = 2000, most = 10000)

  /** Bytes of a message beside its values. */
  private final val Overhead = 1000
  private val toUnsafe = UnsafeProjection.create(schema)

  private def row(x: Long, bytes: Int, isUnsafe: Boolean): InternalRow = {
    val plain = new GenericInternalRow(Array[Any](x, UTF8String.fromString("y" * bytes)))
    if (isUnsafe) toUnsafe(plain).copy() else plain
  }

  private implicit def noShrink[T]: Shrink[T] = Shrink.shrinkAny

  test("calls of any sizes leave in bodies of bounded bytes, in order, but for those that are too large") {
    val sizes = Gen.listOf(Gen.oneOf(Gen.choose(0, 300), Gen.choose(0, 30000)))
    forAll(sizes, Gen.oneOf(true, false)) { (sizes, isUnsafe) =>
      val calls = sizes.zipWithIndex.map { case (n, i) =>
        PythonCall(i.toLong, 1, row(i.toLong, n, isUnsafe))
      }
      val (bodies, refused) = encoded(calls)
      assert(refused.forall { case (id, bytes) => sizes(id.toInt) > 9000 && bytes > size.most })
      assert(sizes.zipWithIndex.forall { case (n, i) => n <= 10000 || refused.contains(i.toLong) })
      val sent = bodies.flatMap(_._1.elementIds)
      assert(sent == sizes.indices.map(_.toLong).filterNot(refused.contains))
      for ((results, bytes, _) <- bodies) {
        // Of a row that does not say its size it is known too late that it had better be alone.
        val limit = if (isUnsafe) size.cut else size.cut + size.most
        assert(results.elementIds.length <= 1 || bytes < limit + Overhead)
        results.rows.zip(results.elementIds).foreach { case (row, id) =>
          assert(row.getLong(0) == id && row.getUTF8String(1).numBytes == sizes(id.toInt))
        }
      }
      assert(bodies.map(_._3) == bodies.indices.map(_ == bodies.size - 1))
    }
  }

  test("a row that refused to say its size takes none of those before it along") {
    val sizes = Seq(10, 20, 30000, 40)
    val (bodies, refused) =
      encoded(sizes.zipWithIndex.map { case (n, i) =>
        PythonCall(i.toLong, 1, row(i.toLong, n, isUnsafe = false))
      })
    assert(refused.keySet == Set(2L))
    assert(bodies.flatMap(_._1.elementIds) == Seq(0L, 1L, 3L))
  }

  test("memory that one large row needed is let go") {
    Using.resource(new ArrowBatchWriter(arrow, FrameSize(cut = 1 << 16, most = 64 << 20))) { writer =>
      def send(bytes: Int): Unit = {
        val one = row(1, bytes, isUnsafe = true)
        assert(writer.write(one, ArrowBatchWriter.bytesOf(one)) == 0)
        writer.finish(): Unit
      }
      send(10)
      val before = allocatedBytes
      send(32 << 20)
      assert(allocatedBytes > (32 << 20))
      send(10)
      assert(allocatedBytes <= 2 * before)
    }
  }

  test("the capacity of a reader's memory doubles, and ends where arrays do") {
    assert(FrameReader.capacityFor(70000) == 131072)
    assert(FrameReader.capacityFor((1 << 30) + 1) == Int.MaxValue - 8)
    assert(FrameReader.capacityFor(Int.MaxValue - 8) == Int.MaxValue - 8)
  }

  /** The off-heap bytes of all writers and readers of this process. */
  private def allocatedBytes: Long =
    Using.resource(SparkAdapter.arrowAllocator("test"))(_.getParentAllocator.getAllocatedMemory)

  /**
   * The bodies, each with its bytes and whether it is the last; and the bytes of calls that were refused, by
   * id.
   */
  private def encoded(calls: Seq[PythonCall]): (Seq[(CallResults, Int, Boolean)], Map[Long, Long]) =
    Using.Manager { use =>
      val encoder = use(new CallEncoder(arrow, identity, (_, _) => CallKey(0, 0), size))
      val decoder = use(new ResultDecoder(arrow, schema))
      val bodies = ArrayBuffer.empty[(CallResults, Int, Boolean)]
      var refused = Map.empty[Long, Long]
      encoder.encode(
        JArrays.asList(calls: _*),
        (parts, isLast) => {
          val bytes = parts.drop(2).map(_.remaining).sum
          bodies += ((decoder.decode(echo(parts)), bytes, isLast))
        },
        (call, bytes) => refused += call.elementId -> bytes
      )
      (bodies.toSeq, refused)
    }.get

  /** What a worker answers that gives each row back. */
  private def echo(parts: Seq[ByteBuffer]): Frame = {
    val n = parts.head.getInt(0)
    val counts = Frame.buffer(4 * n)
    (0 until n).foreach(_ => counts.putInt(1))
    val all = parts.head +: counts.flip() +: parts.drop(2) // without the names
    val whole = Frame.buffer(all.map(_.remaining).sum)
    all.foreach(part => whole.put(part))
    new Frame(Frame.Results, whole.flip())
  }
}
