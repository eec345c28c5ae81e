package io.pillarbox.spark.functions

import java.util.concurrent.ForkJoinPool
import java.util.{Map => JMap}

import io.pillarbox.api.{AsyncFunction, ResultFuture}
import org.apache.spark.sql.Row

/** Answers on other threads: the column `id` times the option `factor`. */
class Multiply(options: JMap[String, String]) extends AsyncFunction[Row, Row] {
  private val factor = options.get("factor").toLong

  override def asyncInvoke(input: Row, future: ResultFuture[Row]): Unit =
    ForkJoinPool.commonPool().execute(() => future.completeOne(Row(input.getAs[Long]("id") * factor)))
}
