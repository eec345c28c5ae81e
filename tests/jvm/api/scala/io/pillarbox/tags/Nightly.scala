package io.pillarbox.tags

import org.scalatest.Tag

/** Another case of something that `make test` has one case of: only `make test-all` runs it. */
object Nightly extends Tag("io.pillarbox.tags.Nightly")
