package io.pillarbox.spark.keyed

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.sql.{DataFrame, Row}

/** Scans as the Python API would send them. */
trait ScanFixture extends KeyedFixture {

  /** State as (name, initial, update). */
  def scan(
      state: Seq[(String, String, String)],
      select: Seq[String] = Nil,
      ttl: String = "null"
  ): Spec = {
    val columns = state.map { case (name, init, update) =>
      s"""{"name":${quoted(name)},"init":${quoted(init)},"update":${quoted(update)}}"""
    }
    val selected = select.map(quoted).mkString("[", ",", "]")
    val json = s"""{"state":${columns.mkString("[", ",", "]")},"select":$selected,"ttl":$ttl}"""
    Spec(form = "scan", orderBy = Seq("v"), extra = s""","scan":$json""")
  }

  def quoted(text: String): String = new ObjectMapper().writeValueAsString(text)

  /** What one state is after each row of one key, in order. */
  def folded(df: DataFrame, initial: String, update: String): Seq[Any] =
    foldedRows(df, Seq(("s", initial, update)), Seq("s")).map(_.get(0))

  def foldedRows(df: DataFrame, state: Seq[(String, String, String)], select: Seq[String]): Seq[Row] =
    process(df, scan(state, select)).collect().toSeq
}
