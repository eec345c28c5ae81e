package io.pillarbox.spark.journal

import java.util.Locale

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.sources.{BaseRelation, DataSourceRegister, PrunedScan, RelationProvider}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Row, SQLContext}

/**
 * The data source `pillarbox-journal`: `path` is the folder of a journal, the options `name` and `version`
 * choose an operator. Spark makes it by its name, which is in `META-INF/services`.
 */
private[spark] final class JournalSource extends RelationProvider with DataSourceRegister {

  override def shortName(): String = "pillarbox-journal"

  override def createRelation(sqlContext: SQLContext, options: Map[String, String]): BaseRelation = {
    options.keys.find(isUnknown).foreach { key =>
      val meant = s"It has ${JournalSource.Options.mkString(", ")}."
      JournalTable.refuse("UNKNOWN_OPTION", "function" -> shortName(), "option" -> key, "meant" -> meant)
    }
    val path = options.getOrElse("path", throw new IllegalArgumentException(s"${shortName()} needs a path"))
    JournalRelation(sqlContext, JournalAddress(path, options.get("name"), options.get("version")))
  }

  /** A table of the catalog brings options of its own, whose names have a dot. */
  private def isUnknown(key: String): Boolean =
    !key.contains('.') && !JournalSource.Options.contains(key.toLowerCase(Locale.ROOT))
}

private object JournalSource {
  private val Options = Seq("path", "name", "version")
}

/** The answers of a journal, as the folder is whenever they are read. */
private[journal] final case class JournalRelation(
    sqlContext: SQLContext,
    address: JournalAddress,
    places: Boolean = false
) extends BaseRelation
    with PrunedScan {
  val table = new JournalTable(sqlContext.sparkSession, address, places)

  override def schema: StructType = table.schema

  /** The rows are Spark's own already. */
  override def needConversion: Boolean = false

  override def buildScan(required: Array[String]): RDD[Row] = table.rows(required).asInstanceOf[RDD[Row]]
}
