package org.apache.spark.sql.pillarbox

import scala.xml.{Elem, Node}

// Pages of Spark's UI are XML literals.
// scalafix:off DisableSyntax.noXml

/** Latencies as bars, on a logarithmic scale from the least to the greatest. */
private object LatencyPicture {

  /** A picture for a cell of a table, with the median and p99. */
  def small(latencies: Latencies): Seq[Node] =
    <div style="white-space: nowrap">{bars(latencies, width = 120, height = 24)}<br/>{
      quantiles(latencies)
    }</div>

  /** The same for a page, with the range. */
  def large(latencies: Latencies): Seq[Node] = {
    <div>
      <h4>Latency of calls, last 5 minutes</h4>
      <div style="display: inline-block">
        {bars(latencies, width = 600, height = 100)}
        <div style="display: flex; justify-content: space-between">
          <span>{time(latencies.ranges.head.from)}</span><span>{time(latencies.ranges.last.until)}</span>
        </div>
      </div>
      <p>{f"${quantiles(latencies)}; ${latencies.total}%,d answers"}</p>
    </div>
  }

  private def quantiles(latencies: Latencies): String =
    s"p50 ${time(latencies.quantile(0.5))}, p99 ${time(latencies.quantile(0.99))}"

  private def bars(latencies: Latencies, width: Int, height: Int): Elem = {
    val most = latencies.ranges.map(_.count).max
    val (start, end) = (log(latencies.ranges.head.from), log(latencies.ranges.last.until))
    val scale = math.min(width / (end - start), WidestOctave)
    val drawn = latencies.ranges.map { range =>
      val (left, right) = ((log(range.from) - start) * scale, (log(range.until) - start) * scale)
      val tall = math.max(1.0, height * range.count.toDouble / most)
      val about = f"${time(range.from)} to ${time(range.until)}: ${range.count}%,d"
      <rect x={pixels(left)} y={pixels(height - tall)} width={pixels(math.max(1.0, right - left - 1))}
            height={pixels(tall)} fill="#0088cc"><title>{about}</title></rect>
    }
    <svg role="img" width={width.toString} height={height.toString} style="border-bottom: 1px solid #999">
      {drawn}
    </svg>
  }

  private def pixels(number: Double): String = "%.1f".formatLocal(java.util.Locale.ROOT, number)

  private def log(micros: Long): Double = math.log(math.max(0.5, micros.toDouble)) / math.log(2)

  private def time(micros: Long): String = time(micros / 1000.0)

  private def time(ms: Double): String =
    if (ms < 10) f"$ms%.1f ms"
    else if (ms < 1000) f"$ms%.0f ms"
    else if (ms < 100000) f"${ms / 1000}%.1f s"
    else f"${ms / 60000}%,.0f min"

  /** The pixels between a latency and twice as much, at most. */
  private final val WidestOctave = 80.0
}
