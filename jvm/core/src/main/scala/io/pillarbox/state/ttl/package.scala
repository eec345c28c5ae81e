package io.pillarbox.state

/**
 * Which state is expired, said once for both backends: a layer over the stamped state that they keep. State
 * without TTL has no such layer.
 */
package object ttl
