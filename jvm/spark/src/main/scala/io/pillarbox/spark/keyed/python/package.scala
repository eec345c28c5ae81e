package io.pillarbox.spark.keyed

/**
 * The Python form of keyed functions: frames of rows, timers and the state of their keys go to the worker,
 * and rows, changed state and timers come back; one round trip a frame.
 *
 * The layout of the frames is described in the worker's own codec (`pillarbox/_worker/keyed_frames.py`).
 * State travels with its stamps: the worker alone judges TTL, and nothing is renewed or removed here but what
 * it says.
 */
package object python
