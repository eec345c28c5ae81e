package io.pillarbox.spark.connect

import java.nio.charset.StandardCharsets.UTF_8

import org.sparkproject.connect.protobuf.{CodedInputStream, WireFormat}

/**
 * The message of a Spark Connect client for an operator of this library: a protobuf message, as
 * `python/src/pillarbox/_driver/client/operator.proto` describes it, in an `Any`. All its fields are bytes, so
 * it is read by hand, and neither side needs generated code.
 */
private[connect] final class OperatorMessage private (fields: Map[Int, Array[Byte]]) {

  /** The version of the client's package. */
  def version: String = text(OperatorMessage.Version)

  def kind: String = text(OperatorMessage.Kind)

  /** JSON, as `AsyncIOSpec` and `KeyedSpec` read it, or the arguments of a look-up. */
  def spec: String = text(OperatorMessage.Spec)

  def input: Option[Array[Byte]] = fields.get(OperatorMessage.Input)

  def initial: Option[Array[Byte]] = fields.get(OperatorMessage.Initial)

  def function: Option[Array[Byte]] = fields.get(OperatorMessage.Function)

  private def text(field: Int): String = new String(fields.getOrElse(field, Array.emptyByteArray), UTF_8)
}

private[connect] object OperatorMessage {
  private val TypeUrl = "type.googleapis.com/pillarbox.Operator"

  private val Version = 1
  private val Kind = 2
  private val Spec = 3
  private val Input = 4
  private val Initial = 5
  private val Function = 6

  /**
   * @param any a `google.protobuf.Any`
   * @return None for a message of another plugin
   */
  def parse(any: Array[Byte]): Option[OperatorMessage] = {
    val envelope = read(any)
    val isOurs = envelope.get(1).exists(url => new String(url, UTF_8) == TypeUrl)
    Option.when(isOurs)(new OperatorMessage(read(envelope.getOrElse(2, Array.emptyByteArray))))
  }

  /** The fields that are bytes or text, by number. */
  private def read(bytes: Array[Byte]): Map[Int, Array[Byte]] = {
    val in = CodedInputStream.newInstance(bytes)
    val fields = Map.newBuilder[Int, Array[Byte]]
    var tag = in.readTag()
    while (tag != 0) {
      if (WireFormat.getTagWireType(tag) == WireFormat.WIRETYPE_LENGTH_DELIMITED)
        fields += WireFormat.getTagFieldNumber(tag) -> in.readByteArray()
      else in.skipField(tag)
      tag = in.readTag()
    }
    fields.result()
  }
}
