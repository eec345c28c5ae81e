package io.pillarbox.files;

import java.util.Arrays;
import java.util.stream.Collectors;

/** The names of this process' threads, for tests that ask again and again. */
public final class ThreadNames {
  private ThreadNames() {}

  /** Returns the names, one a line. */
  public static String lines() {
    ThreadGroup all = Thread.currentThread().getThreadGroup();
    while (all.getParent() != null) all = all.getParent();
    Thread[] threads = new Thread[2 * all.activeCount() + 16];
    int count = all.enumerate(threads);
    return Arrays.stream(threads, 0, count).map(Thread::getName).collect(Collectors.joining("\n"));
  }
}
