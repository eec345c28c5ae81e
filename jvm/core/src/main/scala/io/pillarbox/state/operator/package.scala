package io.pillarbox.state

/** State of an operator's partition that belongs to no key. */
package object operator
