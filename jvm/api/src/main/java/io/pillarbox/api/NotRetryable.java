package io.pillarbox.api;

/** Marks an exception that no further attempt can cure. */
public interface NotRetryable {}
