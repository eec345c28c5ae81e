package io.pillarbox.state

/**
 * The portable format of state: the bytes of a snapshot and a change log, their readers and writers.
 *
 * Both backends write and read it, so state can move from one to the other. Nothing here knows how a backend
 * holds its entries, nor where the files are kept: streams are plain `java.io`.
 */
package object changelog
