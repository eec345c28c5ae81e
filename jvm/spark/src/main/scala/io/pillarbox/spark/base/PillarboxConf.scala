package io.pillarbox.spark.base

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.internal.SQLConf

/**
 * A setting `spark.pillarbox.*`, read on the driver when a query is planned.
 *
 * @param default the default as a user would write it
 * @param expected what it may be, as half a sentence
 */
private[pillarbox] final class PillarboxConf[T] private (
    val key: String,
    val default: String,
    expected: String,
    parse: String => T
) {

  /** Returns None if nobody has set it; else as [[read]]. */
  def readIfSet(conf: SQLConf): Option[T] = Option.when(conf.contains(key))(read(conf))

  /** @throws IllegalArgumentException (INVALID_SETTING) if the value has no meaning */
  def read(conf: SQLConf): T = {
    val value = conf.getConfString(key, default)
    try parse(value)
    catch {
      case _: IllegalArgumentException =>
        throw PillarboxConf.refused(
          "INVALID_SETTING",
          "key" -> key,
          "value" -> value,
          "default" -> default,
          "expected" -> expected
        )
    }
  }
}

private[pillarbox] object PillarboxConf {

  val SnapshotEvery: PillarboxConf[Int] = new PillarboxConf(
    "spark.pillarbox.state.snapshotEvery",
    "10",
    "a whole number of micro-batches from 1 on",
    text => positive(text.trim.toInt.toLong).toInt
  )

  val RocksDBMemory: PillarboxConf[Long] = new PillarboxConf(
    "spark.pillarbox.state.rocksdb.memory",
    "256m",
    "a size of at least 1m",
    text => atLeast(1L << 20, JavaUtils.byteStringAsBytes(text))
  )

  val MaintenanceInterval: PillarboxConf[Long] = new PillarboxConf(
    "spark.pillarbox.state.maintenanceInterval",
    "30s",
    "a time of at least 1s",
    text => positive(JavaUtils.timeStringAsSec(text)) * 1000
  )

  val ShowValues: PillarboxConf[Boolean] = new PillarboxConf(
    "spark.pillarbox.errors.showValues",
    "true",
    "true or false",
    text => flag(text.trim.toLowerCase(java.util.Locale.ROOT))
  )

  val all: Seq[PillarboxConf[_]] = Seq(SnapshotEvery, RocksDBMemory, MaintenanceInterval, ShowValues)

  /**
   * @throws IllegalArgumentException
   *   (INVALID_SETTING, UNKNOWN_SETTING) if a setting `spark.pillarbox.*` has a value without a meaning, or is
   *   none of ours
   */
  def check(conf: SQLConf): Unit = {
    all.foreach(_.read(conf))
    val named = conf.getAllConfs.keys.filter(key => key.startsWith(Prefix) && !key.startsWith(Internal))
    named.find(key => !all.exists(_.key == key)).foreach { key =>
      throw refused("UNKNOWN_SETTING", "key" -> key, "known" -> all.map(_.key).mkString(", "))
    }
  }

  private def refused(condition: String, parameters: (String, Any)*) =
    new IllegalArgumentException(FailureReport.of(condition, "", parameters: _*).errorText)

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
