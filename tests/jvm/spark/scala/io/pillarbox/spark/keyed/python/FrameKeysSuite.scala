package io.pillarbox.spark.keyed.python

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.{DataType, LongType, StringType}
import org.apache.spark.unsafe.types.UTF8String
import org.scalacheck.{Gen, Prop}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.Checkers

/** The keys of a frame against a map of their numbers. */
class FrameKeysSuite extends AnyFunSuite with Checkers {
  private val toRow = UnsafeProjection.create(Array[DataType](LongType))

  private def row(key: Option[Long]): UnsafeRow = toRow(InternalRow(key.getOrElse(null)))

  private def agrees(keys: FrameKeys, wanted: Seq[Option[Long]]): Boolean = {
    val model = mutable.LinkedHashMap.empty[Option[Long], Int]
    val numbers = wanted.forall(key => keys.indexOf(row(key)) == model.getOrElseUpdate(key, model.size))
    val found = mutable.ArrayBuffer.empty[UnsafeRow]
    keys.foreachFrom(0)(found += _)
    numbers && found == model.keys.map(row(_).copy()).toSeq && keys.size == model.size &&
    model.forall { case (key, index) =>
      keys.key(index) == row(key) && keys.hash(index) == row(key).hashCode
    }
  }

  private val manyKeys = Gen.listOf(Gen.option(Gen.chooseNum(0L, 40L)))

  test("keys are numbered in the order of their first row, null like any other, frame after frame") {
    check(Prop.forAll(Gen.listOf(manyKeys)) { frames =>
      val keys = new FrameKeys
      frames.forall { wanted =>
        keys.clear()
        agrees(keys, wanted)
      }
    })
  }

  test("keys of several columns and of strings are told apart by all of their bytes") {
    val toPair = UnsafeProjection.create(Array[DataType](LongType, StringType))
    val text = Gen.option(Gen.oneOf("", "a", "longer than a word"))
    val pairs = Gen.listOf(Gen.zip(Gen.option(Gen.chooseNum(0L, 3L)), text))
    check(Prop.forAll(pairs) { wanted =>
      val keys = new FrameKeys
      val model = mutable.LinkedHashMap.empty[(Option[Long], Option[String]), Int]
      wanted.forall { case pair @ (number, text) =>
        val key = toPair(InternalRow(number.getOrElse(null), text.map(UTF8String.fromString).orNull))
        keys.indexOf(key) == model.getOrElseUpdate(pair, model.size)
      }
    })
  }

  test("looked up many at once, keys get the numbers that they get one after the other") {
    val words = Gen.listOf(Gen.oneOf(Gen.chooseNum(-3L, 3L), Gen.long))
    check(Prop.forAll(Gen.listOf(Gen.zip(words, Gen.option(Gen.chooseNum(-3L, 3L))))) { parts =>
      val (together, single) = (new FrameKeys, new FrameKeys)
      parts.forall { case (wanted, alone) =>
        val indexes = new Array[Int](wanted.size + 1)
        together.indexesOf(wanted.toArray, wanted.size, indexes, 1)
        val expected = wanted.map(word => single.indexOf(row(Some(word))))
        indexes.tail.toSeq == expected && together.indexOf(row(alone)) == single.indexOf(row(alone)) &&
        (0 until single.size).forall { index =>
          together.key(index) == single.key(index) && together.hash(index) == single.key(index).hashCode
        }
      }
    })
  }

  test("a frame may have more keys than there was room for") {
    assert(agrees(new FrameKeys, (0L to 10000L).map(Option(_)) ++ (5000L to 6000L).map(Option(_))))
  }
}
