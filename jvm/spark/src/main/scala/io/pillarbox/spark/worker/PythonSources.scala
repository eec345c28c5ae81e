package io.pillarbox.spark.worker

import java.nio.file.Paths

/** The place of this library's Python sources on this machine: the jar itself, or a class folder in tests. */
private[pillarbox] object PythonSources {
  lazy val path: String =
    Paths.get(getClass.getProtectionDomain.getCodeSource.getLocation.toURI).toString
}
