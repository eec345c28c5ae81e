package io.pillarbox.bench

import java.io.File
import java.net.{URL, URLClassLoader}

/**
 * Loads Flink's RocksDB backend with Flink's own build of RocksDB, frocksdbjni, beside the rocksdbjni that
 * ours uses: the two have the same class names, so one JVM needs a class loader for one of them.
 *
 * The build hands the jar over as the system property `pillarbox.bench.frocksdb`.
 */
private object FlinkRocksDBLoader {
  private val Property = "pillarbox.bench.frocksdb"
  private val own = Seq("org.rocksdb.", "org.apache.flink.state.rocksdb.", classOf[FlinkKeyedStore].getName)

  def newKeyedStore(ttl: String): KeyedStore =
    loader
      .loadClass(classOf[FlinkKeyedStore].getName)
      .getConstructor(classOf[String], classOf[String])
      .newInstance("rocksdb", ttl)
      .asInstanceOf[KeyedStore]

  private lazy val loader: ClassLoader = {
    val jar = sys.props.getOrElse(
      Property,
      throw new IllegalStateException(
        s"The path of frocksdbjni is missing: run through sbt, or set -D$Property"
      )
    )
    val classPath = System.getProperty("java.class.path").split(File.pathSeparator)
    new OwnFirst((jar +: classPath.toSeq).map(new File(_).toURI.toURL).toArray)
  }

  /** Finds the classes of `own` in its own class path, all others through its parent. */
  private final class OwnFirst(urls: Array[URL]) extends URLClassLoader(urls, getClass.getClassLoader) {
    override def loadClass(name: String, resolve: Boolean): Class[_] =
      if (own.exists(name.startsWith))
        getClassLoadingLock(name).synchronized(Option(findLoadedClass(name)).getOrElse(findClass(name)))
      else super.loadClass(name, resolve)

    /** The native library has the same name in both jars, too. */
    override def getResource(name: String): URL =
      Option(findResource(name)).getOrElse(super.getResource(name))
  }
}
