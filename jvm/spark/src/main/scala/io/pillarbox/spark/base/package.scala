package io.pillarbox.spark

/** Settings and the texts of errors, for all parts, on the driver and in tasks. Uses no other part. */
package object base
