package io.pillarbox.spark.worker

import java.io.EOFException
import java.net.{InetAddress, InetSocketAddress}
import java.nio.ByteBuffer
import java.nio.channels.{ServerSocketChannel, SocketChannel}
import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class FrameSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  test("frames of any size come out as they went in, however the bytes are cut") {
    val body =
      Gen.oneOf(Gen.choose(0, 40), Gen.choose(60000, 200000)).flatMap(n => Gen.listOfN(n, Gen.choose(0, 255)))
    forAll(Gen.listOfN(5, body.map(_.map(_.toByte).toArray)), Gen.choose(1, 5000), minSuccessful(20)) {
      (bodies, cut) => assert(roundTrip(bodies, cut).map(_.toSeq) == bodies.map(_.toSeq))
    }
  }

  test("a frame in several parts is one frame") {
    connected { (client, server) =>
      Frame.write(client, Frame.Calls, ByteBuffer.wrap("ab".getBytes), ByteBuffer.wrap("cde".getBytes))
      val frame = new FrameReader(server).read()
      assert(frame.kind == Frame.Calls)
      assert(UTF_8.decode(frame.body).toString == "abcde")
    }
  }

  test("a peer that closes in the middle of a frame is an end of file") {
    connected { (client, server) =>
      client.write(ByteBuffer.wrap(Array[Byte](10, 0, 0, 0, Frame.Results, 1)))
      client.close()
      intercept[EOFException](new FrameReader(server).read())
    }
  }

  private def roundTrip(bodies: List[Array[Byte]], cut: Int): List[Array[Byte]] = connected {
    (client, server) =>
      val sender = new Thread(() => bodies.foreach(body => writeInPieces(client, body, cut)))
      sender.start()
      val reader = new FrameReader(server)
      val received = bodies.map { _ =>
        val frame = reader.read()
        val bytes = new Array[Byte](frame.body.remaining)
        frame.body.get(bytes)
        bytes
      }
      sender.join()
      received
  }

  private def writeInPieces(channel: SocketChannel, body: Array[Byte], cut: Int): Unit = {
    val whole = Frame.buffer(5 + body.length).putInt(1 + body.length).put(Frame.Results).put(body).flip()
    while (whole.hasRemaining) {
      val piece = whole.slice(whole.position(), math.min(cut, whole.remaining))
      whole.position(whole.position() + piece.remaining)
      while (piece.hasRemaining) channel.write(piece)
    }
  }

  private def connected[T](body: (SocketChannel, SocketChannel) => T): T =
    Using.resource(
      ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress, 0))
    ) { listener =>
      Using.resource(SocketChannel.open(listener.getLocalAddress)) { client =>
        Using.resource(listener.accept())(server => body(client, server))
      }
    }
}
