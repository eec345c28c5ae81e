package io.pillarbox.spark

import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._

import org.apache.xbean.asm9.ClassReader
import org.scalatest.funsuite.AnyFunSuite

/** Which package may use which, read from the compiled classes of all modules. */
class PackagesSuite extends AnyFunSuite {
  import PackagesSuite._

  private lazy val uses: Map[String, Set[String]] =
    Modules
      .flatMap(module => classesOf(Paths.get("jvm", module, "target", "scala-2.13", "classes")))
      .groupMapReduce(_.layer)(_.used)(_ ++ _)

  test("every package has its layer in the table") {
    assert(uses.keySet.map(_.replace('/', '.')) == Layers.toSet)
  }

  test("a package uses only what is below it in the table") {
    val height = Layers.zipWithIndex.map { case (layer, down) => layer.replace('.', '/') -> down }.toMap
    val upwards = for {
      (layer, used) <- uses.toSeq
      other <- used
      if height.contains(other) && height(other) < height(layer)
    } yield s"$layer uses $other"
    assert(upwards.sorted == Nil)
  }

  test("the two operators know nothing of each other, and the worker nothing of either") {
    def knows(from: String, to: String): Seq[String] = for {
      (layer, used) <- uses.toSeq if layer.startsWith(s"io/pillarbox/spark/$from")
      other <- used if other.startsWith(s"io/pillarbox/spark/$to")
    } yield s"$layer uses $other"
    val known = Seq("keyed" -> "async", "async" -> "keyed", "worker" -> "async", "worker" -> "keyed")
    assert(known.flatMap { case (from, to) => knows(from, to) } == Nil)
  }
}

private[spark] object PackagesSuite {

  /** From the bottom up, as in `build.sbt`. */
  val Modules: Seq[String] = Seq("api", "mailbox", "state", "metered", "async", "spark")

  /** From the top down: each uses what stands below it, never what stands above. */
  private val Layers: Seq[String] =
    Seq(
      ".connect",
      "",
      ".plan",
      ".inspect",
      ".journal",
      ".keyed.scan",
      ".keyed.jvm",
      ".keyed.python",
      ".keyed",
      ".async.carry",
      ".async"
    )
      .map("io.pillarbox.spark" + _) ++
      Seq(".async.python", ".worker", ".state", ".checkpoint", ".task").map("io.pillarbox.spark" + _) ++
      Seq("org.apache.spark.sql.pillarbox", "io.pillarbox.spark.base") ++
      Seq("", ".queue", ".retry").map("io.pillarbox.async" + _) ++
      Seq("budget", "lease", "limit", "usage", "journal").map("io.pillarbox.metered." + _) ++
      Seq("operator", "timer", "queue").map("io.pillarbox." + _) ++
      Seq("", ".list", ".entries", ".store", ".cache").map("io.pillarbox.state.rocksdb" + _) ++
      Seq(".heap", ".ttl", ".changelog", "").map("io.pillarbox.state" + _) ++
      Seq("mailbox", "api").map("io.pillarbox." + _)

  private final case class Used(layer: String, used: Set[String])

  private val Named =
    "(io/pillarbox|org/apache/spark)/[\\w/]*(?=/[A-Z$])|(io/pillarbox|org/apache/spark)(?=/[A-Z$])".r

  private def classesOf(folder: Path): Seq[Used] = {
    val files = Files.walk(folder)
    try
      files.iterator.asScala
        .filter(_.toString.endsWith(".class"))
        .map { file =>
          val layer = folder.relativize(file).getParent.toString
          Used(layer, named(Files.readAllBytes(file)) - layer)
        }
        .toList
    finally files.close()
  }

  /** The packages in the constant pool: of classes, and in the types of methods and fields. */
  private def named(bytes: Array[Byte]): Set[String] = {
    val reader = new ClassReader(bytes)
    val buffer = new Array[Char](reader.getMaxStringLength)
    val texts = for {
      item <- 1 until reader.getItemCount
      at = reader.getItem(item) if at > 0
      tag = reader.readByte(at - 1)
      text <- tag match {
        case ClassTag => Seq(reader.readUTF8(at, buffer))
        case NameAndTypeTag => Seq(reader.readUTF8(at + 2, buffer))
        case MethodTypeTag => Seq(reader.readUTF8(at, buffer))
        case _ => Nil
      }
    } yield text
    texts.flatMap(text => Named.findAllIn(text)).toSet
  }

  private final val ClassTag = 7
  private final val NameAndTypeTag = 12
  private final val MethodTypeTag = 16
}
