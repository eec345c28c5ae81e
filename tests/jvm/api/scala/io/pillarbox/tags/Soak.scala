package io.pillarbox.tags

import org.scalatest.Tag

/** A long test, which only `make soak` runs. */
object Soak extends Tag("io.pillarbox.tags.Soak")
