package io.pillarbox.spark.async

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.{ByteBuffer, ByteOrder}

import scala.collection.mutable

import io.pillarbox.async.retry.FailedCall
import io.pillarbox.metered.journal.CallKey
import io.pillarbox.spark.async.python.PythonCall
import io.pillarbox.spark.worker.WorkerCalls
import org.apache.spark.sql.catalyst.InternalRow
import org.scalatest.funsuite.AnyFunSuite

/** What a worker is told of attempts, as `python/src/pillarbox/_worker/keyed_calls.py` reads it. */
class AttemptChannelSuite extends AnyFunSuite {
  private val sent = mutable.Buffer.empty[ByteBuffer]
  private var asked = 0
  private val name = CallKey(0x0102030405060708L, 0x090a0b0c0d0e0f10L, Array.emptyByteArray)

  private def opened(send: ByteBuffer => Unit = sent += _): AttemptChannel = {
    sent.clear()
    asked = 0
    val channel = new AttemptChannel(
      (kind, body) => {
        assert(kind == WorkerCalls.Attempts)
        send(body)
      },
      (_, _) => name
    )
    channel.onMore(() => asked += 1)
    channel.open()
    channel
  }

  private def text(body: ByteBuffer): String = {
    val bytes = new Array[Byte](body.getInt)
    body.get(bytes)
    new String(bytes, UTF_8)
  }

  test("what is told in one moment is one frame, in its order") {
    val channel = opened()
    channel.call(PythonCall(3L, 2, InternalRow.empty))
    channel.cancel(3L, 2)
    channel.failed(
      3L,
      FailedCall(InternalRow.empty, 2, 70L, "id"),
      Seq("TIMEOUT", "late", ""),
      endsTask = true
    )
    channel.allEnded()
    assert(asked == 1 && sent.isEmpty)
    channel.flush()
    val Seq(body) = sent.toSeq
    assert((body.get(), body.getLong, body.getInt) == ((1, 3L, 2)))
    val told = new Array[Byte](16)
    body.get(told)
    assert(told.toSeq == (1 to 16).map(_.toByte), "as the digits of the name are read")
    assert((body.get(), body.getLong, body.getInt) == ((2, 3L, 2)))
    assert((body.get(), body.getLong, body.get(), body.getInt, body.getLong) == ((3, 3L, 1, 2, 70L)))
    assert(Seq.fill(4)(text(body)) == Seq("id", "TIMEOUT", "late", ""))
    assert(
      (body.get(), body.getLong, body.hasRemaining, body.order) == ((4, 0L, false, ByteOrder.LITTLE_ENDIAN))
    )
    channel.cancel(4L, 1)
    assert(asked == 2, "there is something to send again")
  }

  test("a channel that is closed sends what it was told before, and drops the rest") {
    val channel = opened()
    channel.cancel(1L, 1)
    channel.close()
    channel.cancel(2L, 1)
    channel.flush()
    channel.flush()
    assert(sent.map(_.remaining) == Seq(13))
  }

  test("a worker that has gone is no error here") {
    val channel = opened(_ => throw new IOException("broken pipe"))
    channel.allEnded()
    channel.flush()
  }
}
