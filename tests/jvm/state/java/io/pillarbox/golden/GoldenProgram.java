package io.pillarbox.golden;

import io.pillarbox.api.TimerService;
import java.util.ArrayList;
import java.util.List;

/** Does what the rows and timers of a case of tests/golden say, over whatever state there is. */
public abstract class GoldenProgram {
  /** Null if there is none, here and below. */
  protected abstract Long value();

  protected abstract void put(long value);

  protected abstract void add(long element);

  protected abstract List<Long> all();

  protected abstract Long brief();

  protected abstract void putBrief(long value);

  /**
   * Does what is asked for, and tells of it as the cases do.
   *
   * @param time null for a row without one
   */
  public String tell(String what, Long time, String ops, TimerService timers) {
    long watermark = timers.currentWatermark();
    StringBuilder told = new StringBuilder(what).append(' ').append(shown(time)).append(" @");
    told.append(shown(watermark == Long.MIN_VALUE ? null : (Long) watermark));
    for (String op : ops.isEmpty() ? new String[0] : ops.split(", ")) {
      String answer = run(op, timers);
      if (answer != null) told.append(' ').append(answer);
    }
    return told.toString();
  }

  private String run(String op, TimerService timers) {
    switch (op) {
      case "get":
        return shown(value());
      case "all":
        return all().toString();
      case "ttl.get":
        return shown(brief());
      case "timers":
        return listed(timers);
      default:
        int end = op.lastIndexOf(' ');
        change(op.substring(0, end), Long.parseLong(op.substring(end + 1)), timers);
        return null;
    }
  }

  private void change(String op, long number, TimerService timers) {
    switch (op) {
      case "put" -> put(number);
      case "add" -> add(number);
      case "ttl.put" -> putBrief(number);
      case "event" -> timers.registerEventTimeTimer(number);
      case "clock" -> timers.registerProcessingTimeTimer(number);
      case "no event" -> timers.deleteEventTimeTimer(number);
      case "no clock" -> timers.deleteProcessingTimeTimer(number);
      default -> throw new IllegalArgumentException(op);
    }
  }

  private static String listed(TimerService timers) {
    record Due(long time, String kind) {}
    List<Due> all = new ArrayList<>();
    timers.eventTimeTimers()
        .forEach(time -> all.add(new Due((Long) time, "event")));
    timers.processingTimeTimers()
        .forEach(time -> all.add(new Due((Long) time, "clock")));
    all.sort(java.util.Comparator.comparing(Due::time).thenComparing(Due::kind));
    return all.stream().map(due -> "'" + due.kind + " " + due.time + "'").toList().toString();
  }

  private static String shown(Long number) {
    return number == null ? "-" : number.toString();
  }
}
