package io.pillarbox.api;

/** Tells a function about its operator when it is opened. Pillarbox implements it, and may add to it. */
public interface OpenContext {

  /** The operator's name, as plans, metrics and messages show it: {@code name=}, or that of the class. */
  String operatorName();
}
