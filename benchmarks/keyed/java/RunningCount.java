package peers;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.api.java.function.MapFunction;
import scala.collection.Iterator;

/** Spark's own transformWithState on the JVM: the running count and sum per key. */
public final class RunningCount extends StatefulProcessor<Long, Row, Row> {
  private static final StructType STATE = StructType.fromDDL("n bigint, total bigint");
  private static final StructType OUTPUT = StructType.fromDDL("k bigint, n bigint, total bigint");
  private final boolean everyRow;
  private final long ttlMs;
  private transient ValueState<Row> state;

  /** @param everyRow state is read and written for each row; otherwise once for a key's rows of a batch
   *  @param ttlMs 0 for none */
  private RunningCount(boolean everyRow, long ttlMs) {
    this.everyRow = everyRow;
    this.ttlMs = ttlMs;
  }

  /** Called from Python: (k, v, …) rows to (k, n, total). */
  public static Dataset<Row> apply(Dataset<Row> rows, boolean everyRow, long ttlMs) {
    MapFunction<Row, Long> key = row -> row.getLong(0);
    TimeMode time = ttlMs > 0 ? TimeMode.ProcessingTime() : TimeMode.None();
    return rows.groupByKey(key, Encoders.LONG())
        .transformWithState(
            new RunningCount(everyRow, ttlMs), time, OutputMode.Update(), Encoders.row(OUTPUT));
  }

  @Override
  public void init(OutputMode mode, TimeMode time) {
    Encoder<Row> encoder = Encoders.row(STATE);
    TTLConfig ttl = ttlMs > 0 ? new TTLConfig(java.time.Duration.ofMillis(ttlMs)) : TTLConfig.NONE();
    state = getHandle().getValueState("count", encoder, ttl);
  }

  @Override
  public Iterator<Row> handleInputRows(Long key, Iterator<Row> rows, TimerValues times) {
    List<Row> output = new ArrayList<>();
    Row count = everyRow ? null : state.get();
    while (rows.hasNext()) {
      Row found = everyRow ? state.get() : count;
      long n = found == null ? 1 : found.getLong(0) + 1;
      long total = rows.next().getLong(1) + (found == null ? 0 : found.getLong(1));
      count = RowFactory.create(n, total);
      if (everyRow) state.update(count);
      output.add(RowFactory.create(key, n, total));
    }
    if (!everyRow) state.update(count);
    return scala.jdk.javaapi.CollectionConverters.asScala(output.iterator());
  }
}
