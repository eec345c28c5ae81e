package io.pillarbox.spark

import org.apache.spark.sql.SparkSession
import org.scalatest.{BeforeAndAfterAll, Suite}

/** One local session with two task slots for all suites of this JVM. */
trait LocalSpark extends BeforeAndAfterAll { this: Suite =>

  lazy val spark: SparkSession = LocalSpark.session

  /** Our threads that belong to a task; the timer thread is the JVM's. */
  def channelThreads: Seq[String] = LocalSpark.threads.filter(_.startsWith("pillarbox "))
}

private object LocalSpark {
  lazy val session: SparkSession = SparkSession
    .builder()
    .master("local[2,2]")
    .appName("pillarbox tests")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", "target/warehouse")
    .getOrCreate()

  def threads: Seq[String] = {
    val names = Seq.newBuilder[String]
    Thread.getAllStackTraces.keySet.forEach(thread => { names += thread.getName; () })
    names.result()
  }
}
