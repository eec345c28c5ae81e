package io.pillarbox.operator

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

class SpaceSavingSuite extends AnyFunSuite {

  private def of(counters: Int) = new SpaceSaving[String](counters, identity)

  test("with fewer keys than counters all counts are exact") {
    val sketch = of(4)
    assert(sketch.heaviest.isEmpty && sketch.total == 0)
    Seq("a" -> 3.0, "b" -> 5.0, "a" -> 3.0, "c" -> 1.0).foreach { case (key, weight) =>
      sketch.add(key, weight)
    }
    assert(sketch.heaviest.contains("a" -> 6.0) && sketch.total == 12)
  }

  test("a key with more than its share among many has a counter, and never more than its weight") {
    val random = new Random(5)
    for (share <- Seq(0.05, 0.3)) {
      val sketch = of(64)
      val exact = mutable.HashMap.empty[String, Double].withDefaultValue(0.0)
      for (_ <- 1 to 20000) {
        val key = if (random.nextDouble() < share) "hot" else s"key ${random.nextInt(5000)}"
        val weight = 1.0 + random.nextInt(3)
        exact(key) += weight
        sketch.add(key, weight)
        assert(sketch.heaviest.forall { case (found, certain) => certain <= exact(found) })
      }
      val Some((key, certain)) = sketch.heaviest
      assert(key == "hot" && certain >= exact("hot") - sketch.total / 64)
    }
  }

  test("among equal keys none is certain to have a part of weight") {
    val sketch = of(64)
    for (_ <- 1 to 20; key <- 1 to 1000) sketch.add(s"$key", 1.0)
    assert(sketch.heaviest.forall(_._2 < sketch.total / 100))
  }

  test("weights that are halved give way to those of late") {
    val sketch = of(8)
    sketch.add("old", 100.0)
    (1 to 4).foreach(_ => sketch.halve())
    sketch.add("new", 10.0)
    assert(sketch.heaviest.contains("new" -> 10.0) && sketch.total == 16.25)
  }

  test("a key that its caller changes stays as it was") {
    val sketch = new SpaceSaving[mutable.ArrayBuffer[Int]](2, _.clone())
    val key = mutable.ArrayBuffer(1)
    sketch.add(key, 2.0)
    key(0) = 2
    sketch.add(key, 1.0)
    assert(sketch.heaviest.contains(mutable.ArrayBuffer(1) -> 2.0))
  }
}
