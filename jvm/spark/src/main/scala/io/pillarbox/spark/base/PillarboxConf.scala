package io.pillarbox.spark.base

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.internal.SQLConf

/**
 * A setting `spark.pillarbox.*`, read on the driver when a query is planned.
 *
 * @param default the default as a user would write it
 * @param doc its description, for the page of settings
 */
private[pillarbox] final class PillarboxConf[T] private (
    val key: String,
    val default: String,
    val doc: String,
    parse: String => T
) {

  /** @throws IllegalArgumentException if the value has no meaning */
  def read(conf: SQLConf): T = {
    val value = conf.getConfString(key, default)
    try parse(value)
    catch {
      case e: IllegalArgumentException =>
        throw new IllegalArgumentException(s"$key can't be \"$value\" (default: $default). $doc", e)
    }
  }
}

private[pillarbox] object PillarboxConf {

  val SnapshotEvery: PillarboxConf[Int] = new PillarboxConf(
    "spark.pillarbox.state.snapshotEvery",
    "10",
    "After how many micro-batches a snapshot of a partition's state is taken, in the background. Fewer " +
      "make a restart " +
      "faster and cost more writing.",
    text => positive(text.trim.toInt.toLong).toInt
  )

  val RocksDBMemory: PillarboxConf[Long] = new PillarboxConf(
    "spark.pillarbox.state.rocksdb.memory",
    "256m",
    "The memory for block cache and write buffers of all RocksDB databases of an executor " +
      "together, 1m at least.",
    text => atLeast(1L << 20, JavaUtils.byteStringAsBytes(text))
  )

  val MaintenanceInterval: PillarboxConf[Long] = new PillarboxConf(
    "spark.pillarbox.state.maintenanceInterval",
    "30s",
    "How often an executor looks for state of queries that have ended or partitions that have moved, and " +
      "closes it.",
    text => positive(JavaUtils.timeStringAsSec(text)) * 1000
  )

  val ShowValues: PillarboxConf[Boolean] = new PillarboxConf(
    "spark.pillarbox.errors.showValues",
    "true",
    "Whether errors show values of rows, keys and answers. With false they are hidden, in texts and in what " +
      "pb.failure_of returns.",
    text => flag(text.trim.toLowerCase(java.util.Locale.ROOT))
  )

  val all: Seq[PillarboxConf[_]] = Seq(SnapshotEvery, RocksDBMemory, MaintenanceInterval, ShowValues)

  /**
   * @throws IllegalArgumentException
   *   if a setting `spark.pillarbox.*` has a value without a meaning, or is none of ours
   */
  def check(conf: SQLConf): Unit = {
    all.foreach(_.read(conf))
    val named = conf.getAllConfs.keys.filter(key => key.startsWith(Prefix) && !key.startsWith(Internal))
    named.find(key => !all.exists(_.key == key)).foreach { key =>
      val known = all.map(_.key).mkString(", ")
      throw new IllegalArgumentException(s"There is no setting $key. Those of Pillarbox are $known.")
    }
  }

  private final val Prefix = "spark.pillarbox."

  /** The settings of tests. */
  private final val Internal = "spark.pillarbox.internal."

  private def flag(text: String): Boolean = text.toBooleanOption.getOrElse(
    throw new IllegalArgumentException("It must be true or false")
  )

  private def positive(number: Long): Long = atLeast(1, number)

  private def atLeast(least: Long, number: Long): Long =
    if (number >= least) number else throw new IllegalArgumentException(s"It must be $least or more")
}
