package io.pillarbox.async

/**
 * Decides which attempts are made again and when, and what becomes of an element that failed for good.
 * Nothing is called or waited for here.
 */
package object retry
