package io.pillarbox.golden;

import io.pillarbox.api.Collector;
import io.pillarbox.api.KeyedProcessFunction;
import io.pillarbox.api.ListState;
import io.pillarbox.api.StateDescriptor;
import io.pillarbox.api.StateTtl;
import io.pillarbox.api.TimeDomain;
import io.pillarbox.api.ValueState;
import io.pillarbox.spark.SparkSerializers;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * Plays the cases of tests/golden on Spark: rows are (key, place, time, ops), options are what happens in
 * timers, by key, kind and time. Emits (key, number of the call, what is told).
 */
public class GoldenFunction extends KeyedProcessFunction<Row, Row, Row> {
  private final Map<String, String> on;
  private final GoldenProgram program = new Program();
  private ValueState<Row> calls;
  private ValueState<Row> value;
  private ListState<Row> list;
  private ValueState<Row> brief;

  public GoldenFunction(Map<String, String> options) {
    on = options;
  }

  @Override
  public void open(OpenContext context) {
    StateTtl tenMs = StateTtl.ofMillis(10).withTimeDomain(TimeDomain.EVENT_TIME);
    calls = context.getState(StateDescriptor.value("n", SparkSerializers.rows("value int")));
    value = context.getState(StateDescriptor.value("value", SparkSerializers.rows("value bigint")));
    brief =
        context.getState(
            StateDescriptor.value("brief", SparkSerializers.rows("value bigint")).withTtl(tenMs));
    list = context.getState(StateDescriptor.list("list", SparkSerializers.rows("value bigint")));
  }

  @Override
  public void processElement(Row row, Context<Row> context, Collector<Row> out) {
    long time = context.timestamp();
    tell("row", time == NO_TIMESTAMP ? null : (Long) time, row.getAs("ops"), context, out);
  }

  @Override
  public void onTimer(long timestamp, OnTimerContext<Row> context, Collector<Row> out) {
    String kind = context.timeDomain() == TimeDomain.EVENT_TIME ? "event" : "clock";
    String name = context.currentKey().getString(0) + " " + kind + " " + timestamp;
    tell(kind, timestamp, on.getOrDefault(name, ""), context, out);
  }

  private void tell(
      String what, Long time, String ops, Context<Row> context, Collector<Row> out) {
    String told = program.tell(what, time, ops, context.timerService());
    int n = calls.value() == null ? 1 : calls.value().getInt(0) + 1;
    calls.update(RowFactory.create(n));
    out.collect(RowFactory.create(context.currentKey().getString(0), n, told));
  }

  private final class Program extends GoldenProgram {
    @Override
    protected Long value() {
      return numberIn(value.value());
    }

    @Override
    protected void put(long number) {
      value.update(RowFactory.create(number));
    }

    @Override
    protected void add(long element) {
      list.add(RowFactory.create(element));
    }

    @Override
    protected List<Long> all() {
      List<Long> elements = new ArrayList<>();
      list.get().forEach(row -> elements.add(row.getLong(0)));
      return elements;
    }

    @Override
    protected Long brief() {
      return numberIn(brief.value());
    }

    @Override
    protected void putBrief(long number) {
      brief.update(RowFactory.create(number));
    }

    private Long numberIn(Row row) {
      return row == null ? null : row.getLong(0);
    }
  }
}
