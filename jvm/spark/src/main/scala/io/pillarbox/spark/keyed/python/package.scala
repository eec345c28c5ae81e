package io.pillarbox.spark.keyed

/**
 * The Python form of keyed functions: frames of rows, timers and the state of their keys go to the worker,
 * and rows, changed state and timers come back, in one round trip a frame.
 *
 * The worker's own codec (`pillarbox/_worker/keyed_frames.py`) describes the layout of the frames. State
 * travels with its timestamps: the worker alone judges TTL, and the JVM renews or removes only what it is
 * told to.
 */
package object python
