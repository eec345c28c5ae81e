package io.pillarbox.spark.keyed.python

import org.scalatest.funsuite.AnyFunSuite

class ReadySuite extends AnyFunSuite {
  private def json(name: String) = {
    val schema = """{"type":"struct","fields":[]}"""
    s"""{"states":[{"name":"$name","kind":"value","type":$schema}],"timers":true}"""
  }

  test("tasks of one function share what it declares, and those of another one do not") {
    val one = Ready.fromJson(json("one"))
    assert(one.states.map(_.name) == Seq("one") && one.timers)
    assert(Ready.fromJson(json("one")) eq one)
    assert(Ready.fromJson(json("two")).states.map(_.name) == Seq("two"))
  }

  test("the most recently used ones are kept") {
    val kept = Ready.fromJson(json("kept"))
    (1 to 1000).foreach { i =>
      Ready.fromJson(json(s"s$i"))
      assert(Ready.fromJson(json("kept")) eq kept)
    }
    val first = Ready.fromJson(json("s1"))
    (1 to 64).foreach(i => Ready.fromJson(json(s"t$i")))
    assert((Ready.fromJson(json("s1")) ne first) && Ready.fromJson(json("s1")) == first)
  }
}
