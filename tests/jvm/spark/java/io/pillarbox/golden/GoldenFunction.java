package io.pillarbox.golden;

import io.pillarbox.operator.Collector;
import io.pillarbox.operator.KeyedProcessFunction;
import io.pillarbox.spark.keyed.RowSerializer;
import io.pillarbox.state.ListState;
import io.pillarbox.state.ListStateDescriptor;
import io.pillarbox.state.StateTtlConfig;
import io.pillarbox.state.ValueState;
import io.pillarbox.state.ValueStateDescriptor;
import io.pillarbox.timer.TimerKind;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

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
  public void open(KeyedProcessFunction.OpenContext context) {
    StateTtlConfig tenMs =
        new StateTtlConfig(
            10,
            StateTtlConfig.OnCreateAndWrite$.MODULE$,
            StateTtlConfig.NeverReturnExpired$.MODULE$,
            StateTtlConfig.EventTime$.MODULE$,
            StateTtlConfig.apply$default$5());
    calls = context.getState(valueOf("n", "value int", Option.empty()));
    value = context.getState(valueOf("value", "value bigint", Option.empty()));
    brief = context.getState(valueOf("brief", "value bigint", Option.apply(tenMs)));
    list =
        context.getState(
            new ListStateDescriptor<Row>(
                "list", RowSerializer.of("value bigint"), Option.empty(), Option.empty()));
  }

  private static ValueStateDescriptor<Row> valueOf(
      String name, String type, Option<StateTtlConfig> ttl) {
    return new ValueStateDescriptor<Row>(name, RowSerializer.of(type), ttl, Option.empty());
  }

  @Override
  public void processElement(
      Row row, KeyedProcessFunction.Context<Row> context, Collector<Row> out) {
    long time = context.timestamp();
    tell("row", time == Long.MIN_VALUE ? null : (Long) time, row.getAs("ops"), context, out);
  }

  @Override
  public void onTimer(
      long timestamp, KeyedProcessFunction.OnTimerContext<Row> context, Collector<Row> out) {
    String kind = context.timeDomain() == TimerKind.EventTime$.MODULE$ ? "event" : "clock";
    String name = context.currentKey().getString(0) + " " + kind + " " + timestamp;
    tell(kind, timestamp, on.getOrDefault(name, ""), context, out);
  }

  private void tell(
      String what,
      Long time,
      String ops,
      KeyedProcessFunction.Context<Row> context,
      Collector<Row> out) {
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
      CollectionConverters.asJava(list.get()).forEachRemaining(row -> elements.add(row.getLong(0)));
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
