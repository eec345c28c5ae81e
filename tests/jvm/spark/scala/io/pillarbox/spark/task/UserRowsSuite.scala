package io.pillarbox.spark.task

import java.math.{BigDecimal => JBigDecimal, BigInteger}
import java.util.{Arrays => JArrays, Map => JMap}

import io.pillarbox.spark.base.PythonText
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.types.StructType
import org.scalatest.funsuite.AnyFunSuite

class UserRowsSuite extends AnyFunSuite {
  private val columns = StructType.fromDDL(
    "n bigint not null, d decimal(10,2), m map<string,struct<x:decimal(5,1)>>, l array<map<string,int>>, s string"
  )

  private val text = PythonText(show = true, "password")

  private def read(rows: UserRows, schema: StructType, row: Row): Row =
    CatalystTypeConverters.createToScalaConverter(schema)(rows.toInternal(row)).asInstanceOf[Row]

  private def read(row: Row): Row = read(new UserRows(columns, text), columns, row)

  private def refusal(row: Row): String =
    intercept[IllegalArgumentException](new UserRows(columns, text).toInternal(row)).getMessage

  private val wanted = Row(
    1L,
    new JBigDecimal("7.00"),
    Map("a" -> Row(new JBigDecimal("1.5")), "b" -> null),
    Seq(Map("c" -> 3), null),
    "x"
  )

  test("rows may hold collections and numbers of Scala or of Java") {
    assert(
      read(
        Row(1L, BigDecimal(7), Map("a" -> Row(BigDecimal("1.5")), "b" -> null), Seq(Map("c" -> 3), null), "x")
      ) == wanted
    )
    val map = new java.util.HashMap[String, Row](JMap.of("a", Row(new JBigDecimal("1.5"))))
    map.put("b", null)
    assert(
      read(Row(1L, BigInteger.valueOf(7), map, JArrays.asList(JMap.of("c", 3), null), "x")) == wanted
    )
  }

  test("digits beyond a decimal's scale are rounded half up, and what is too large is refused") {
    assert(read(Row(1L, new JBigDecimal("1.005"), null, null, null)).getDecimal(1) == new JBigDecimal("1.01"))
    assert(refusal(Row(1L, new JBigDecimal("1e9"), null, null, null)).contains("does not fit returns"))
  }

  test("a null, a type and a width that don't fit are told") {
    assert(refusal(Row(null, null, null, null, null)).contains("'n' of input row cannot be null"))
    assert(refusal(Row("1", null, null, null, null)).contains("java.lang.String is not valid"))
    assert(refusal(null).contains("null instead of a row"))
    assert(refusal(Row(1L)).contains("a row of 1 columns, but returns has 5"))
    assert(refusal(Row(1L, null, "map", null, null)).contains("java.lang.String is not valid"))
  }

  test("what doesn't fit is hidden if it may be of a column whose values are") {
    val secret = StructType.fromDDL("n bigint, password int")
    val told = intercept[IllegalArgumentException](new UserRows(secret, text).toInternal(Row(1L, "sk-1")))
    assert(told.getMessage.contains(s"(1, ${PythonText.Hidden}) does not fit returns"))
    assert(!told.getMessage.contains("sk-1") && told.getCause == null)
    val all = new UserRows(columns, text.copy(show = false))
    val hidden = intercept[IllegalArgumentException](all.toInternal(Row("sk-1", null, null, null, null)))
    assert(!hidden.getMessage.contains("sk-1"))
  }

  test("a row is completed by columns that the function does not know") {
    val whole = StructType.fromDDL("n bigint, e string")
    val rows =
      new UserRows(StructType.fromDDL("n bigint"), text, whole, row => Row.fromSeq(row.toSeq :+ null))
    assert(read(rows, whole, Row(5L)) == Row(5L, null))
  }
}
