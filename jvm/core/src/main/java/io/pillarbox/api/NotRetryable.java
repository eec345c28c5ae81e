package io.pillarbox.api;

/** To be implemented by an exception that no further attempt can cure. */
public interface NotRetryable {}
