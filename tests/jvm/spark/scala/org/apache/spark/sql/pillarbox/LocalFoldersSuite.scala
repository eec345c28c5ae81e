package org.apache.spark.sql.pillarbox

import java.nio.file.Files

import io.pillarbox.spark.LocalSpark
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

class LocalFoldersSuite extends AnyFunSuite with LocalSpark with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(30, Seconds))

  private def filled(): LocalFolder = {
    spark.sparkContext // local folders belong to a running Spark
    val folder = LocalFolders.create("test")
    val deep = Files.createDirectories(folder.path.resolve("a/b"))
    (1 to 200).foreach(i => Files.write(deep.resolve(i.toString), Array[Byte](1)))
    folder
  }

  test("a closed folder goes with all that is in it, also if the thread is interrupted") {
    (1 to 4).foreach { round =>
      val folder = filled()
      if (round % 2 == 0) Thread.currentThread().interrupt()
      folder.close()
      assert(Thread.interrupted() == (round % 2 == 0))
      eventually(assert(!Files.exists(folder.path)))
    }
  }

  test("a folder is closed twice, or after it is gone, without an error") {
    val folder = filled()
    folder.close()
    eventually(assert(!Files.exists(folder.path)))
    folder.close()
  }
}
