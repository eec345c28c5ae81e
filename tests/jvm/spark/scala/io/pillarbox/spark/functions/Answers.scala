package io.pillarbox.spark.functions

import java.util.{ArrayList => JArrayList}

import io.pillarbox.api.{AsyncFunction, ResultFuture}
import org.apache.spark.sql.Row

/** Each id is answered by as many rows. */
class Repeat extends AsyncFunction[Row, Row] {
  override def asyncInvoke(input: Row, future: ResultFuture[Row]): Unit = {
    val rows = new JArrayList[Row]
    (0L until input.getLong(0)).foreach(i => rows.add(Row(i)))
    future.complete(rows)
  }
}

/** Odd ids fail. */
class OddFails extends AsyncFunction[Row, Row] {
  override def asyncInvoke(input: Row, future: ResultFuture[Row]): Unit =
    if (input.getLong(0) % 2 == 1)
      future.completeExceptionally(new IllegalStateException(s"odd ${input.getLong(0)}"))
    else future.completeOne(Row(input.getLong(0)))
}

/** Every id is answered by its second attempt. */
class SecondTime extends AsyncFunction[Row, Row] {
  override def asyncInvoke(input: Row, future: ResultFuture[Row]): Unit =
    if (future.attempt == 1) future.completeExceptionally(new IllegalStateException("not yet"))
    else future.completeOne(Row(input.getLong(0)))
}

/** A text where a number is declared. */
class WrongType extends AsyncFunction[Row, Row] {
  override def asyncInvoke(input: Row, future: ResultFuture[Row]): Unit = future.completeOne(Row("text"))
}

/** Two columns where one is declared. */
class WrongWidth extends AsyncFunction[Row, Row] {
  override def asyncInvoke(input: Row, future: ResultFuture[Row]): Unit = future.completeOne(Row(1L, 2L))
}

/** Is no function at all. */
class NoFunction

/** Can't be made from options. */
class NeedsNumber(val number: Int) extends AsyncFunction[Row, Row] {
  override def asyncInvoke(input: Row, future: ResultFuture[Row]): Unit =
    future.completeOne(Row(number.toLong))
}

/** Its constructor says no. */
class Refuses extends AsyncFunction[Row, Row] {
  if (getClass.getName.nonEmpty) throw new IllegalStateException("the url is missing")
  override def asyncInvoke(input: Row, future: ResultFuture[Row]): Unit = ()
}
