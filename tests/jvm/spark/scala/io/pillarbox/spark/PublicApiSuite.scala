package io.pillarbox.spark

import java.lang.reflect.{Method, Modifier}
import java.nio.file.{Files, Path, Paths}
import javax.lang.model.SourceVersion

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

/** What users of Java and Scala see of the project, and that both can use it. */
class PublicApiSuite extends AnyFunSuite {
  import PublicApiSuite._

  test("outside of the public package every type is private to the project") {
    val public = for {
      file <- filesOf("src/main/scala", ".scala")
      text = Files.readString(file)
      if !text.contains("package io.pillarbox.api\n")
      // Adapters are in Spark's own package to see its private types, so no modifier of ours can hide them.
      if !text.startsWith("package org.apache.spark.sql.pillarbox\n")
      declared <- Declared.findAllMatchIn(text).map(_.group(1))
    } yield declared
    assert(public.sorted == Seq("SparkSerializers"))
  }

  test("the public package is small") {
    assert(apiClasses.count(!_.getName.contains('$')) <= 35)
    assert(apiClasses.exists(_.getSimpleName == "KeyedProcessFunction"))
  }

  test("names that are reserved are free") {
    val types = apiClasses.map(_.getSimpleName).toSet
    assert(Reserved.filter(types) == Nil)
    val future = Class.forName("io.pillarbox.api.ResultFuture").getMethods.map(_.getName).toSet
    assert(future("callId") && future("reportUsage"))
  }

  test("a Java user meets no type of Scala, and no method that is a word of Java's") {
    val methods = for {
      cls <- apiClasses.filterNot(forScala) :+ Class.forName("io.pillarbox.spark.SparkSerializers")
      method <- cls.getDeclaredMethods
      if Modifier.isPublic(method.getModifiers) && !method.isSynthetic
    } yield method
    assert(methods.size > 100)
    assert(methods.filter(usesScala).map(_.toGenericString) == Nil)
    assert(methods.filter(m => SourceVersion.isKeyword(m.getName)).map(_.toGenericString) == Nil)
  }
}

private object PublicApiSuite {

  /** A type at the top of a file without a word that hides it; scalafmt keeps modifiers in this order. */
  private val Declared =
    "(?m)^(?:@.*\\n)?(?:(?:final|sealed|abstract|case|implicit) )*(?:class|trait|object) (\\w+)".r

  /** What operators that are called from Scala and Java will need. */
  private val Reserved = List(
    "Retry",
    "Limit",
    "Timeout",
    "BatchSize",
    "CarryOver",
    "Journal",
    "Budget",
    "Backend",
    "ErrorColumn",
    "Pillarbox"
  )

  private def filesOf(kind: String, end: String): Seq[Path] =
    PackagesSuite.Modules.map(Paths.get("jvm", _).resolve(kind)).filter(Files.exists(_)).flatMap { folder =>
      val files = Files.walk(folder)
      try files.iterator.asScala.filter(_.toString.endsWith(end)).toList
      finally files.close()
    }

  private lazy val apiClasses: Seq[Class[_]] =
    filesOf("target/scala-2.13/classes/io/pillarbox/api", ".class")
      .map(file => Class.forName("io.pillarbox.api." + file.getFileName.toString.stripSuffix(".class")))
      .filter(cls => Modifier.isPublic(cls.getModifiers))
      .filterNot(_.getName.startsWith("io.pillarbox.api.Bytes"))

  private def forScala(cls: Class[_]): Boolean =
    cls.getName.contains("ScalaSerializers") || cls.getName.endsWith("$")

  private def usesScala(method: Method): Boolean =
    (method.getGenericReturnType +: method.getGenericParameterTypes.toSeq)
      .exists(_.getTypeName.contains("scala."))
}
