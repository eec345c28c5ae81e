package peers;

import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import scala.collection.Iterator;

/** Spark's own transformWithState on the JVM: keeps the last payload of each key. */
public final class LastPayload extends StatefulProcessor<Long, Row, Long> {
  private transient ValueState<String> last;

  /** Called from Python: (k, payload) rows to keys. */
  public static Dataset<Row> apply(Dataset<Row> rows) {
    MapFunction<Row, Long> key = row -> row.getLong(0);
    return rows.groupByKey(key, Encoders.LONG())
        .transformWithState(
            new LastPayload(), TimeMode.None(), OutputMode.Update(), Encoders.LONG())
        .toDF("k");
  }

  @Override
  public void init(OutputMode mode, TimeMode time) {
    last = getHandle().getValueState("last", Encoders.STRING(), TTLConfig.NONE());
  }

  @Override
  public Iterator<Long> handleInputRows(Long key, Iterator<Row> rows, TimerValues times) {
    String payload = null;
    while (rows.hasNext()) payload = rows.next().getString(1);
    last.update(payload);
    return scala.collection.Iterator.single(key);
  }
}
