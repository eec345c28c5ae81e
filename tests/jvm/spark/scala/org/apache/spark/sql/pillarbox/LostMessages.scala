package org.apache.spark.sql.pillarbox

import java.util.concurrent.ConcurrentLinkedQueue

import scala.concurrent.{Future, Promise}
import scala.reflect.ClassTag

import org.apache.spark.SparkConf
import org.apache.spark.rpc.{RpcAddress, RpcEndpointRef, RpcTimeout}

/** What executors tell the driver between micro-batches gets lost. */
object LostMessages {

  /** @param body is given what was lost so far */
  def during(body: ConcurrentLinkedQueue[Any] => Unit): Unit = {
    val driver = DriverMessages.getClass.getDeclaredField("driver")
    driver.setAccessible(true)
    val before = driver.get(DriverMessages)
    val lost = new ConcurrentLinkedQueue[Any]
    driver.set(DriverMessages, new Loses(lost))
    try body(lost)
    finally driver.set(DriverMessages, before)
  }

  private final class Loses(lost: ConcurrentLinkedQueue[Any]) extends RpcEndpointRef(new SparkConf) {
    override def address: RpcAddress = null
    override def name: String = "nobody"
    override def send(message: Any): Unit = lost.add(message): Unit
    override def ask[T: ClassTag](message: Any, timeout: RpcTimeout): Future[T] = Promise[T]().future
  }
}
