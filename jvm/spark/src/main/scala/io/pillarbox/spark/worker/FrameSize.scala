package io.pillarbox.spark.worker

import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.spark.base.FailureReport
import org.apache.spark.TaskContext

/**
 * The bytes of rows, answers and state that go into one frame.
 *
 * @param cut bytes from which a frame is sent, so that neither side holds much at a time
 * @param most the most bytes of a frame with a single row, answer or value: Arrow's offsets and the JVM's
 *   arrays end at 2 GiB, and Arrow's buffers double as they grow
 */
private[pillarbox] final case class FrameSize(cut: Long, most: Long) {

  /** Adds the bounds to the worker's settings. */
  def addTo(init: ObjectNode): Unit = {
    init.putObject("frame_bytes").put("cut", cut).put("most", most)
    ()
  }

  /** Returns the error of something that has so many bytes. */
  def refusal(name: String, bytes: Long, parameters: (String, Any)*): FailureReport = {
    val sizes = Seq("size" -> FrameSize.shown(bytes), "limit" -> FrameSize.shown(most))
    FailureReport.of(name, "", sizes ++ parameters: _*)
  }
}

private[pillarbox] object FrameSize {
  private val Default = FrameSize(64L << 20, 1L << 30)

  /** Set only by a session that tests the limits. */
  private val CutKey = "spark.pillarbox.internal.frame.cut"
  private val MostKey = "spark.pillarbox.internal.frame.most"

  val RowTooLarge = "ROW_TOO_LARGE"
  val StateTooLarge = "STATE_TOO_LARGE"

  private def shown(bytes: Long): String = String.format(java.util.Locale.ROOT, "%,d bytes", bytes)

  def of(context: TaskContext): FrameSize =
    if (context == null) Default
    else
      FrameSize(
        Option(context.getLocalProperty(CutKey)).fold(Default.cut)(_.toLong),
        Option(context.getLocalProperty(MostKey)).fold(Default.most)(_.toLong)
      )
}
