package io.pillarbox.testing

import io.pillarbox.tags.Nightly
import org.scalactic.anyvals.PosInt
import org.scalatest.funsuite.AnyFunSuite

/** Random tests, each with a few cases by day and with many in `make test-all`. */
trait FewAndMany { this: AnyFunSuite =>

  /** Registers the test twice; `body` is told how many cases to make. */
  def random(name: String, few: PosInt, many: PosInt)(body: PosInt => Unit): Unit = {
    test(name)(body(few))
    test(s"$name, ${many.value} times", Nightly)(body(many))
  }
}
