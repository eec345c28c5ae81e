package io.pillarbox.spark.plan

import java.nio.ByteBuffer
import java.nio.ByteOrder.LITTLE_ENDIAN
import java.nio.charset.StandardCharsets.UTF_8

import io.pillarbox.spark.async.AsyncIOSpec
import io.pillarbox.spark.base.{Build, SpecJson}
import io.pillarbox.spark.checkpoint.OperatorMetadata
import org.apache.spark.sql.catalyst.expressions.PythonUDF

/**
 * A `PythonUDF` that is a `pb.async_udf`. Its pickle has a mark near the front: a text with the operator's
 * spec, as `python/src/pillarbox/_driver/marked.py` writes it. On the driver.
 */
private[plan] object MarkedUdf {

  private val Mark = "pillarbox.async_udf:"
  private val MarkBytes = Mark.getBytes(UTF_8)

  /** The bytes of a pickle in which a mark begins, at most. */
  private val Reach = 256

  /** The opcode of a text in a pickle with its length in four bytes. A spec has more than 255 characters. */
  private val BinUnicode = 'X'.toByte

  /** True if the UDF is marked, or one that is nested in it is. */
  def isIn(udf: PythonUDF): Boolean = udf.exists {
    case inner: PythonUDF => isMarked(inner)
    case _ => false
  }

  /** True if the UDF itself is marked. */
  def isMarked(udf: PythonUDF): Boolean = start(udf).isDefined

  /**
   * True if the UDF is marked, and its calls need not be made exactly where they stand: an equal one will do, and
   * filters on other columns may come first. Not so after `asNondeterministic`.
   */
  def isMovable(udf: PythonUDF): Boolean =
    udf.children.forall(_.deterministic) && textOf(udf).exists(SpecJson.read[Told](_).deterministic)

  /**
   * Returns the spec of a marked UDF.
   *
   * @throws IllegalStateException
   *   (ASYNC_UDF_VERSION) if the Python package of another version has written it
   */
  def unapply(udf: PythonUDF): Option[AsyncIOSpec] = textOf(udf).map { json =>
    val told = SpecJson.read[Told](json)
    if (told.version != Build.version)
      throw OperatorMetadata.refused(
        "ASYNC_UDF_VERSION",
        s"async_udf(${udf.name})",
        "jar" -> Build.version,
        "package" -> told.version
      )
    SpecJson.read[AsyncIOSpec](told.spec)
  }

  private def textOf(udf: PythonUDF): Option[String] = start(udf).map { at =>
    val command = ByteBuffer.wrap(udf.func.command.toArray).order(LITTLE_ENDIAN)
    val text = new Array[Byte](command.getInt(at - 4))
    command.get(at, text)
    new String(text, UTF_8).substring(Mark.length)
  }

  /** The place of the mark's text in the pickle. */
  private def start(udf: PythonUDF): Option[Int] = {
    val command = udf.func.command
    val at = command.take(Reach + MarkBytes.length).indexOfSlice(MarkBytes)
    Option.when(at >= 5 && command(at - 5) == BinUnicode)(at)
  }

  /** The mark's text; `spec` is that of an [[AsyncIOSpec]] of this version. */
  private final case class Told(version: String, deterministic: Boolean, spec: String)
}
