package io.pillarbox.spark

import io.pillarbox.files.LocalFilesInProcess
import io.pillarbox.spark.checkpoint.OddFileSystem
import org.apache.spark.sql.SparkSession

/** One local session with two task slots, where a task is tried twice, for all suites of this JVM. */
trait LocalSpark {
  lazy val spark: SparkSession = LocalSpark.session
}

private object LocalSpark {
  lazy val session: SparkSession = {
    val started = start()
    LocalFilesInProcess.install(started.sparkContext.hadoopConfiguration)
    Seq("flaky", "counting").foreach(OddFileSystem.install(_, started.sparkContext.hadoopConfiguration))
    started
  }

  private def start(): SparkSession = SparkSession
    .builder()
    .master("local[2,2]")
    .appName("pillarbox tests")
    .config("spark.ui.enabled", "false")
    // Not by the clock, which would close what a test holds: KeyedFixture closes what its tests leave.
    .config("spark.pillarbox.state.maintenanceInterval", "1d")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.warehouse.dir", "target/warehouse")
    .getOrCreate()
}
