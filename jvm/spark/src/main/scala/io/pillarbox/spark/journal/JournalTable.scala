package io.pillarbox.spark.journal

import scala.collection.mutable

import io.pillarbox.metered.journal.JournalFile
import io.pillarbox.spark.async.OperatorColumns
import io.pillarbox.spark.base.FailureReport
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types._

/**
 * A journal as a table. On the driver.
 *
 * @param wanted with its path as the user wrote it
 * @param places true for columns that tell where answers stand; a column of the key or the answer that has
 *               several types, which else is refused, is left out then
 * @throws IllegalArgumentException (NO_JOURNAL, NO_JOURNAL_OPERATOR, JOURNAL_COLUMNS_DIFFER)
 */
private[journal] final class JournalTable(session: SparkSession, wanted: JournalAddress, places: Boolean) {
  import JournalTable._

  private val conf = SparkAdapter.hadoopConf(session)
  val address: JournalAddress = wanted.qualified(conf)
  if (!address.isThere(conf)) refuse("NO_JOURNAL", "path" -> wanted.path)

  private val differing = mutable.HashMap.empty[String, String]

  /** The columns. Those of the key and the answer are looked up in all segments, if an operator is named. */
  val schema: StructType = {
    val meant = if (wanted.name.isEmpty && wanted.version.isEmpty) Nil else meantOperators()
    StructType(Fixed ++ wanted.name.toSeq.flatMap(columnsOf(_, meant)) ++ (if (places) Places else Nil))
  }

  private def columnsOf(name: String, meant: Seq[OperatorColumns]): Seq[StructField] = Seq(
    StructField(Key, merged(name, meant.map(_.key))),
    StructField(Answer, merged(name, meant.map(_.returns)))
  )

  /** The operators of the name and version that are wanted; it refuses if there is none. */
  private def meantOperators(): Seq[OperatorColumns] = {
    val known = operators()
    val meant =
      known.filter(one => wanted.name.forall(_ == one.name) && wanted.version.forall(one.version.contains))
    if (meant.isEmpty) {
      val asked = wanted.name.toSeq ++ wanted.version.map(version => s"the version $version")
      val there = known.map(_.shown).distinct.sorted
      refuse(
        "NO_JOURNAL_OPERATOR",
        "path" -> wanted.path,
        "name" -> asked.mkString(" of "),
        "there" -> (if (there.isEmpty) "no operator" else there.mkString(", "))
      )
    }
    meant
  }

  /** Merges the columns of operators by their names. */
  private def merged(operator: String, parts: Seq[StructType]): StructType = {
    val found = mutable.LinkedHashMap.empty[String, DataType]
    parts.flatten.foreach { field =>
      val dataType = SparkAdapter.asNullable(field.dataType)
      val other = found.getOrElseUpdate(field.name, dataType)
      if (other != dataType) differing(field.name) = s"${other.catalogString} and ${dataType.catalogString}"
    }
    if (!places) found.keys.foreach(refuseDiffering(operator, _))
    val fields = found.map { case (column, dataType) => StructField(column, dataType) }.toSeq
    StructType(fields.filterNot(field => differing.contains(field.name)))
  }

  /** Throws if the column of the operator has several types. */
  def refuseDiffering(operator: String, column: String): Unit = differing.get(column).foreach { types =>
    refuse("JOURNAL_COLUMNS_DIFFER", "name" -> operator, "column" -> column, "types" -> types)
  }

  private def operators(): Seq[OperatorColumns] = {
    val groups = segmentGroups()
    val (here, hadoopConf) = (address, SparkAdapter.broadcastHadoopConf(session))
    if (groups.isEmpty) Nil
    else
      session.sparkContext
        .parallelize(groups, groups.size)
        .flatMap { segments =>
          val answers = here.answers(hadoopConf.value.value)
          here.reporting("read")(segments.flatMap(answers.operators).distinct)
        }
        .distinct()
        .collect()
        .toSeq
        .sorted
        .map(OperatorColumns.parse)
  }

  /** The rows with the `required` columns, as the folder is when this is called. */
  def rows(required: Array[String]): RDD[InternalRow] = {
    val groups = segmentGroups()
    val columns = StructType(required.map(schema(_)))
    new JournalRDD(
      session.sparkContext,
      address,
      groups,
      columns,
      SparkAdapter.broadcastHadoopConf(session)
    )
  }

  /** The segments, those together that one task reads. */
  private def segmentGroups(): Seq[Seq[String]] = {
    val groups = mutable.ArrayBuffer.empty[mutable.ArrayBuffer[String]]
    var room = 0L
    address.reporting("read")(address.answers(conf).segments()).foreach { case JournalFile(name, length, _) =>
      if (room <= 0) {
        groups += mutable.ArrayBuffer.empty
        room = BytesOfTask
      }
      groups.last += name
      room -= length + CostOfOpening
    }
    groups.map(_.toSeq).toSeq
  }
}

private[journal] object JournalTable {
  final val Name = "name"
  final val Version = "version"
  final val CallId = "call_id"
  final val WrittenAt = "written_at"
  final val Attempts = "attempts"
  final val Usage = "usage"
  final val Key = "key"
  final val Answer = "answer"
  final val Segment = "segment"
  final val Offset = "offset"

  private val Fixed = Seq(
    StructField(Name, StringType),
    StructField(Version, StringType),
    StructField(CallId, StringType),
    StructField(WrittenAt, TimestampType),
    StructField(Attempts, IntegerType),
    StructField(Usage, MapType(StringType, DoubleType, valueContainsNull = false))
  )
  private val Places = Seq(StructField(Segment, StringType), StructField(Offset, LongType))
  private final val BytesOfTask = 64L << 20
  private final val CostOfOpening = 1L << 20

  private[journal] def refuse(condition: String, parameters: (String, Any)*): Nothing =
    throw new IllegalArgumentException(FailureReport.of(condition, "", parameters: _*).errorText)
}
