package org.apache.spark.sql.pillarbox

import java.net.{
  InetAddress,
  InetSocketAddress,
  StandardProtocolFamily,
  StandardSocketOptions,
  UnixDomainSocketAddress
}
import java.nio.channels.{ServerSocketChannel, SocketChannel}
import java.nio.file.Files

import org.scalatest.funsuite.AnyFunSuite

class PythonWorkersSuite extends AnyFunSuite {

  test("small frames are sent at once over TCP") {
    val server = ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress, 0))
    val channel = SocketChannel.open(server.getLocalAddress)
    try {
      assert(!channel.getOption(StandardSocketOptions.TCP_NODELAY))
      PythonWorkers.sendAtOnce(channel)
      assert(channel.getOption(StandardSocketOptions.TCP_NODELAY))
    } finally {
      channel.close()
      server.close()
    }
  }

  test("a Unix domain socket is left as it is") {
    val folder = Files.createTempDirectory("socket")
    val address = UnixDomainSocketAddress.of(folder.resolve("s"))
    val server = ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(address)
    val channel = SocketChannel.open(address)
    try PythonWorkers.sendAtOnce(channel)
    finally {
      channel.close()
      server.close()
      Files.deleteIfExists(address.getPath)
      Files.delete(folder)
    }
  }
}
