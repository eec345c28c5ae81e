package io.pillarbox.spark.plan

import io.pillarbox.spark.base.{PillarboxConf, PythonText}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pillarbox.SparkAdapter

/** Reads how errors show values. On the driver, when an operator is about to run. */
private[pillarbox] object ErrorText {
  def of(conf: SQLConf): PythonText =
    PythonText(PillarboxConf.ShowValues.read(conf), SparkAdapter.redaction(conf))
}
