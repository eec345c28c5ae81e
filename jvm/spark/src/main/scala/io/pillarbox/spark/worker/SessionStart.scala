package io.pillarbox.spark.worker

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.channels.Channels
import java.nio.charset.StandardCharsets.UTF_8

import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.spark.base.{PythonText, SpecJson}
import org.apache.arrow.vector.ipc.WriteChannel
import org.apache.arrow.vector.ipc.message.MessageSerializer
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.TaskContext
import org.apache.spark.sql.pillarbox.{LeasedWorker, UserFunction}

/** The beginning of every session with a worker: Spark's preamble, then one INIT frame. */
private[pillarbox] object SessionStart {

  /** Sends the function with its schemas. Blocks while the worker does not read. */
  def send(
      worker: LeasedWorker,
      function: UserFunction,
      initJson: String,
      inputSchema: Schema,
      resultSchema: Schema
  ): Unit = {
    val preamble = ByteBuffer.wrap(worker.preamble(function))
    while (preamble.hasRemaining) worker.channel.write(preamble)
    val parts = Seq(
      initJson.getBytes(UTF_8),
      schemaMessage(inputSchema),
      schemaMessage(resultSchema),
      function.command
    )
    Frame.write(worker.channel, Frame.Init, blobs(parts))
  }

  /** Returns the worker's description of its task, with the fields that `operator` adds of itself. */
  def initJson(text: PythonText, context: TaskContext)(operator: ObjectNode => Unit): String =
    SpecJson.of { init =>
      operator(init)
      text.addTo(init)
      FrameSize.of(context).addTo(init)
      init
        .putObject("task")
        .put("partition", context.partitionId())
        .put("stage", context.stageId())
        .put("attempt", context.attemptNumber())
        .put("task_attempt_id", context.taskAttemptId()): Unit
    }

  /** Puts the length of each part before it. */
  def blobs(parts: Seq[Array[Byte]]): ByteBuffer = {
    val body = Frame.buffer(parts.map(_.length + 4).sum)
    parts.foreach(part => body.putInt(part.length).put(part))
    body.flip()
  }

  /** Returns an Arrow IPC schema message, without the end-of-stream mark. */
  def schemaMessage(schema: Schema): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    MessageSerializer.serialize(new WriteChannel(Channels.newChannel(bytes)), schema)
    bytes.toByteArray
  }
}
