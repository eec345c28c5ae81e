package io.pillarbox.async

/**
 * Which attempts are made again and when, and what becomes of an element that failed for good. Both are
 * decisions alone: nothing is called or waited for here.
 */
package object retry
