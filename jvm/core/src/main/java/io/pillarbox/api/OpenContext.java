package io.pillarbox.api;

/** Tells a function about its operator when it is opened. Pillarbox implements it; later versions tell more. */
public interface OpenContext {

  /** The name of the operator, as plans, metrics and messages show it: {@code name=}, or that of the class. */
  String operatorName();
}
