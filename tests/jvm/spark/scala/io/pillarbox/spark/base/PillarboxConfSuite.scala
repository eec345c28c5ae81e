package io.pillarbox.spark.base

import org.apache.spark.sql.internal.SQLConf
import org.scalatest.funsuite.AnyFunSuite

/** Settings as texts of users. */
class PillarboxConfSuite extends AnyFunSuite {

  private def read[T](setting: PillarboxConf[T], text: String): T = {
    val conf = new SQLConf
    conf.setConfString(setting.key, text)
    setting.read(conf)
  }

  test("every setting has a default that can be read") {
    PillarboxConf.all.foreach { setting =>
      assert(setting.read(new SQLConf) == read(setting, setting.default), setting.key)
    }
  }

  test("space around a value does not matter, as with Spark's own settings") {
    PillarboxConf.all.foreach { setting =>
      assert(read(setting, s"  ${setting.default}\t") == setting.read(new SQLConf), setting.key)
    }
  }

  test("a value without a meaning, or too large to keep, is refused with the key and the default") {
    val more = PillarboxConf.SnapshotEvery -> "4294967297"
    val nonsense = PillarboxConf.all.flatMap(setting => Seq("", "often", "0", "-1").map(setting -> _))
    val little = PillarboxConf.RocksDBMemory -> "1k"
    (more +: little +: nonsense).foreach { case (setting, text) =>
      val refused = intercept[IllegalArgumentException](read(setting, text))
      val told = s"""${setting.key} can't be "$text" (default: ${setting.default})"""
      assert(refused.getMessage.startsWith(s"[INVALID_SETTING] The setting $told. Set it to "), refused)
    }
  }

  test("a key that is none of ours is refused with those that are") {
    def checked(key: String, text: String): Unit = {
      val conf = new SQLConf
      conf.setConfString(key, text)
      PillarboxConf.check(conf)
    }
    val refused = intercept[IllegalArgumentException](checked("spark.pillarbox.state.snapshotEvry", "2"))
    val told = "[UNKNOWN_SETTING] There is no setting spark.pillarbox.state.snapshotEvry."
    assert(refused.getMessage.startsWith(told))
    assert(refused.getMessage.contains(PillarboxConf.SnapshotEvery.key))
    intercept[IllegalArgumentException](checked(PillarboxConf.SnapshotEvery.key, "0"))
    checked("spark.pillarbox.internal.frame.rows", "2")
    checked(PillarboxConf.SnapshotEvery.key, "2")
  }
}
