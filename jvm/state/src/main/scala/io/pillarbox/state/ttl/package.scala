package io.pillarbox.state

/**
 * The rule of expiry, once for both backends: a layer over the stamped state that they keep. State without
 * TTL has no such layer.
 */
package object ttl
