package org.apache.spark.sql.pillarbox

import org.apache.spark.sql.catalyst.expressions.Cast
import org.apache.spark.sql.types._

/** Compares types by the values that they hold exactly. Nullability does not count. */
object LosslessTypes {

  /** Returns the smallest type that holds every value of both, nullable everywhere; None if there is none. */
  def common(left: DataType, right: DataType): Option[DataType] =
    either(left.asNullable, right.asNullable)

  /** True if values of `from` can become `to`; fields of structs must have the same names. */
  def canBecome(from: DataType, to: DataType): Boolean = (from, to) match {
    case (f: StructType, t: StructType) =>
      f.fieldNames.sameElements(t.fieldNames) &&
      f.zip(t).forall { case (a, b) => canBecome(a.dataType, b.dataType) }
    case (ArrayType(f, _), ArrayType(t, _)) => canBecome(f, t)
    case (MapType(fk, fv, _), MapType(tk, tv, _)) => canBecome(fk, tk) && canBecome(fv, tv)
    case _ if from == to => true
    case (f: DecimalType, t: IntegralType) => f.isTighterThan(t)
    case (f: NumericType, t: NumericType) => holds(t, f)
    // Spark's up-casts read a number as seconds of a time and the reverse, and turn anything into text.
    case (_: NumericType, _) | (_, _: NumericType) | (_, StringType) => from == NullType
    case _ => Cast.canUpCast(from, to)
  }

  /** True if `to` has all values of `from` as they are: it may allow more nulls, or have other comments. */
  def isWider(from: DataType, to: DataType): Boolean = DataType.equalsIgnoreCompatibleNullability(from, to)

  /** Returns the common type, nullable everywhere. */
  private def either(left: DataType, right: DataType): Option[DataType] = (left, right) match {
    case _ if left == right => Some(left)
    case (NullType, other) => Some(other)
    case (other, NullType) => Some(other)
    case (a: NumericType, b: NumericType) => numbers(a, b)
    case (ArrayType(a, _), ArrayType(b, _)) => either(a, b).map(ArrayType(_))
    case (MapType(ak, av, _), MapType(bk, bv, _)) =>
      for (key <- either(ak, bk); value <- either(av, bv)) yield MapType(key, value)
    case (a: StructType, b: StructType) => structs(a, b)
    case (DayTimeIntervalType(from, to), DayTimeIntervalType(start, end)) =>
      Some(DayTimeIntervalType(from.min(start), to.max(end)))
    case (YearMonthIntervalType(from, to), YearMonthIntervalType(start, end)) =>
      Some(YearMonthIntervalType(from.min(start), to.max(end)))
    case _ => None
  }

  /** Fields are matched by place, and must have the same names. */
  private def structs(left: StructType, right: StructType): Option[StructType] =
    if (left.fieldNames.toSeq != right.fieldNames.toSeq) None
    else {
      val fields = left.zip(right).flatMap { case (a, b) =>
        either(a.dataType, b.dataType).map(StructField(a.name, _))
      }
      Option.when(fields.size == left.size)(StructType(fields))
    }

  private def numbers(left: NumericType, right: NumericType): Option[NumericType] =
    candidates(left, right).find(wide => holds(wide, left) && holds(wide, right))

  /** The candidates in the order of preference. */
  private def candidates(left: NumericType, right: NumericType): Seq[NumericType] = {
    val decimals = Seq(left, right).collect {
      case exact: NumericType if !isBinary(exact) => decimalOf(exact)
    }
    val union = if (decimals.size == 2) unionOf(decimals.head, decimals.last) else None
    Seq(left, right, DoubleType) ++ union
  }

  /** True if every value of `number` is a value of `wide`. */
  private def holds(wide: NumericType, number: NumericType): Boolean = (wide, number) match {
    case _ if wide == number => true
    case (to: IntegralType, from: IntegralType) => bits(to) >= bits(from)
    case (to: DecimalType, from) if !isBinary(from) => to.isWiderThan(from)
    case (to, from: IntegralType) => isBinary(to) && bits(from) <= bits(to)
    case (DoubleType, FloatType) => true
    case _ => false
  }

  private def isBinary(number: NumericType): Boolean = number == FloatType || number == DoubleType

  /** The bits of the integers that the type holds without a gap, without the sign. */
  private def bits(number: NumericType): Int = number match {
    case FloatType => 24
    case DoubleType => 53
    case integral => integral.defaultSize * 8 - 1
  }

  private def decimalOf(number: NumericType): DecimalType = number match {
    case decimal: DecimalType => decimal
    case integral => DecimalType.forType(integral)
  }

  private def unionOf(left: DecimalType, right: DecimalType): Option[DecimalType] = {
    val scale = left.scale.max(right.scale)
    val precision = scale + (left.precision - left.scale).max(right.precision - right.scale)
    Option.when(precision <= DecimalType.MAX_PRECISION)(DecimalType(precision, scale))
  }
}
