package io.pillarbox.state

/**
 * Which state is expired. Nothing here holds state: the backends ask, for each timestamp they keep beside a value.
 */
package object ttl
