package io.pillarbox.spark.functions

import io.pillarbox.api.{AsyncFunction, ResultFuture}
import org.apache.spark.sql.Row

/** Answers with the column `id`, for which it uses as many tokens, and half a dollar. */
class Metered extends AsyncFunction[Row, Row] {
  override def asyncInvoke(input: Row, future: ResultFuture[Row]): Unit = {
    val id = input.getAs[Long]("id")
    future.reportUsage("tokens", id.toDouble)
    future.reportUsage("usd", 0.5)
    future.completeOne(Row(id))
  }
}
