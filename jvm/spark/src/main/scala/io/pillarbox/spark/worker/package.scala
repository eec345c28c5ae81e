package io.pillarbox.spark

/**
 * A task's Python worker: its life, the frames that go to and fro, rows in them as Arrow, and its errors.
 *
 * Knows neither kind of operator: what frames mean to one is in its own `python`.
 */
package object worker
