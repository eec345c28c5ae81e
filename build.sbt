import org.typelevel.scalacoptions.ScalacOptions

/** The lines of Spark, with the release of each. */
val sparkReleases = {
  val properties = new java.util.Properties
  IO.load(properties, file("project/lines.properties"))
  properties
}

/** The line that is built for and tested with, unless `-Dspark.line` names another one. */
val mainLine = sparkReleases.getProperty("main")
val sparkLine = sys.props.getOrElse("spark.line", mainLine)
val sparkVersion = sparkReleases.getProperty(mainLine)

/**
 * The jars of another line's Spark: those of the pyspark that is installed in the line's environment, which
 * `tools/build_line` makes. Not every release of Spark is in a Maven repository.
 */
def jarsOfLine(root: File): Seq[File] = {
  val packages = (root / ".build" / "lines" / sparkLine / "lib") * "python3*" / "site-packages"
  (packages / "pyspark" / "jars" * "*.jar").get() match {
    case Seq() => sys.error(s"Spark $sparkLine is not there: run tools/build_line $sparkLine")
    case jars => jars
  }
}

/** The folders of sources on the line's side of each Spark release in which Spark's inner API changed. */
def foldersOfLine(sources: File): Seq[File] = {
  def number(line: String) = line.split('.').map(_.toInt).foldLeft(0)(_ * 1000 + _)
  val (since, until) = ("scala-since-spark-(.+)".r, "scala-until-spark-(.+)".r)
  IO.listFiles(sources)
    .filter(_.getName match {
      case since(first) => number(first) <= number(sparkLine)
      case until(last) => number(sparkLine) <= number(last)
      case _ => false
    })
    .toSeq
}

val flinkVersion = "2.3.0"

ThisBuild / organization := "io.pillarbox"
ThisBuild / version := IO.read(file("python/src/pillarbox/_version.py")).split('"')(1)
ThisBuild / scalaVersion := "2.13.18"
ThisBuild / javacOptions ++= Seq("--release", "17")
ThisBuild / scalacOptions ++= Seq("-release", "17")
ThisBuild / licenses := Seq(License.Apache2)

/** What Spark 4.2 opens of the JDK, for every forked JVM that runs Spark or Flink code. */
val moduleOpens = Seq(
  "java.base/java.lang",
  "java.base/java.lang.invoke",
  "java.base/java.lang.reflect",
  "java.base/java.io",
  "java.base/java.net",
  "java.base/java.nio",
  "java.base/java.util",
  "java.base/java.util.concurrent",
  "java.base/java.util.concurrent.atomic",
  "java.base/jdk.internal.ref",
  "java.base/sun.nio.ch",
  "java.base/sun.nio.cs",
  "java.base/sun.security.action",
  "java.base/sun.util.calendar",
  "java.security.jgss/sun.security.krb5"
).map(target => s"--add-opens=$target=ALL-UNNAMED")

val testLibraries = Seq(
  "org.scalatest" %% "scalatest" % "3.2.20" % Test,
  "org.scalatestplus" %% "scalacheck-1-18" % "3.2.19.0" % Test
)

/** Flink's own classes, to compare with. They never reach the jar that users install. */
val flinkPeers = Seq(
  "org.apache.flink" % "flink-streaming-java" % flinkVersion,
  "org.apache.flink" % "flink-streaming-java" % flinkVersion classifier "tests",
  "org.apache.flink" % "flink-runtime" % flinkVersion,
  "org.apache.flink" % "flink-runtime" % flinkVersion classifier "tests",
  "org.apache.flink" % "flink-core" % flinkVersion,
  "org.apache.flink" % "flink-core" % flinkVersion classifier "tests",
  "org.apache.flink" % "flink-test-utils-junit" % flinkVersion,
  "org.apache.flink" % "flink-statebackend-rocksdb" % flinkVersion exclude ("com.ververica", "frocksdbjni")
)

/** Flink's own build of RocksDB. Its class names are rocksdbjni's, so it is on no class path: the benchmarks load it apart. */
lazy val FlinkRocksDB = config("flinkRocksdb").hide

/** All tests but those that have a tag, or those alone that have the tag of this name: Nightly or Soak. */
val chosenTests = sys.env.get("PILLARBOX_TESTS") match {
  case Some(tag) => Seq(Tests.Argument(TestFrameworks.ScalaTest, "-n", s"io.pillarbox.tags.$tag"))
  case None =>
    Seq("Nightly", "Soak").map(tag => Tests.Argument(TestFrameworks.ScalaTest, "-l", s"io.pillarbox.tags.$tag"))
}

// The forked JVMs of two modules' tests run side by side: each often waits, for a disk or for a timer.
Global / concurrentRestrictions := Seq(
  Tags.limitAll(math.max(2, EvaluateTask.SystemProcessors)),
  Tags.limit(Tags.ForkedTestGroup, 2),
  Tags.exclusiveGroup(Tags.Clean)
)

def commonSettings(testFolder: String) = Seq(
  Test / scalaSource := (ThisBuild / baseDirectory).value / "tests" / "jvm" / testFolder / "scala",
  Test / javaSource := (ThisBuild / baseDirectory).value / "tests" / "jvm" / testFolder / "java",
  Test / resourceDirectory := (ThisBuild / baseDirectory).value / "tests" / "jvm" / testFolder / "resources",
  // Fixtures override methods about the project's own types, which no class outside could.
  Test / scalacOptions -= "-Xlint:inaccessible",
  Test / fork := true,
  Test / baseDirectory := (ThisBuild / baseDirectory).value,
  Test / javaOptions ++= moduleOpens ++ Seq("-Xmx3g", "-XX:+UseSerialGC"),
  // Of `make coverage`.
  Test / javaOptions ++= sys.env.get("PILLARBOX_TEST_JVM_OPTION").toSeq,
  Test / testOptions += Tests.Argument(TestFrameworks.ScalaTest, "-oDF"),
  Test / testOptions += Tests.Argument(TestFrameworks.ScalaTest, "-C", "io.pillarbox.testing.HangReporter"),
  Test / testOptions ++= chosenTests,
  tpolecatExcludeOptions ++= Set(ScalacOptions.warnValueDiscard, ScalacOptions.warnNonUnitStatement),
  libraryDependencies ++= testLibraries
)

/**
 * The public types must stay compatible with those of the version that `tests/jvm/api/baseline.jar` was made of by
 * `make api-baseline`.
 */
val guardedApi = Seq(
  mimaPreviousClassfiles := Map(
    projectID.value -> (ThisBuild / baseDirectory).value / "tests" / "jvm" / "api" / "baseline.jar"
  ),
  mimaCurrentClassfiles := (Compile / packageBin).value
)

lazy val root = (project in file("."))
  .aggregate(core, spark)
  .disablePlugins(MimaPlugin)
  .settings(publish / skip := true, name := "pillarbox-root")

/** What a module takes from one below it: its classes, and what their tests have in common. */
val below = "compile->compile;test->test"

/** A module that doesn't know Spark, so it is compiled once for all lines. What it needs of libraries, Spark brings. */
def module(name: String, libraries: ModuleID*): Project =
  Project(name, file("jvm") / name)
    .disablePlugins(MimaPlugin)
    .settings(commonSettings(name))
    .settings(
      Keys.name := s"pillarbox-$name",
      libraryDependencies ++= libraries.map(_ % Provided)
    )

val slf4j = "org.slf4j" % "slf4j-api" % "2.0.17"
val rocksDB = "org.rocksdb" % "rocksdbjni" % "9.8.4"
// Spark's own library of metrics, in the version that it brings. Whoever runs a mailbox needs it, in tests too.
val metrics = "io.dropwizard.metrics" % "metrics-core" % "4.2.37"

/** For the tests that compare a module with Flink. */
val besideFlink = libraryDependencies ++= (flinkPeers ++ Seq(
  "org.junit.jupiter" % "junit-jupiter" % "5.11.4",
  "org.junit.platform" % "junit-platform-launcher" % "1.11.4"
)).map(_ % Test)

// A module knows those that it depends on here, and no other (docs/adr/0042-modules.md).
lazy val api = module("api")
lazy val mailbox = module("mailbox", metrics).dependsOn(api % "test->test").settings(besideFlink)
lazy val state =
  module("state", rocksDB, metrics).dependsOn(api % below, mailbox % below).settings(besideFlink)
lazy val metered = module("metered", metrics, slf4j).dependsOn(api % below, mailbox % below)
lazy val async = module("async", metrics, slf4j).dependsOn(metered % below)

/** All modules that don't know Spark, for a command that goes to each of them: "core/test". */
lazy val core = (project in file("target/core"))
  .aggregate(coreModules: _*)
  .disablePlugins(MimaPlugin)
  .settings(publish / skip := true)
lazy val coreModules = Seq[ProjectReference](api, mailbox, state, metered, async)
val ofCore = ScopeFilter(inProjects(api, mailbox, state, metered, async))

lazy val spark = (project in file("jvm/spark"))
  .dependsOn(state % below, async % below)
  .settings(commonSettings("spark"))
  .settings(guardedApi)
  .settings(
    name := "pillarbox",
    description := "Async I/O and keyed process functions with timers and expiring state, for Spark.",
    // In Maven an artifact for each line of Spark, with all modules inside.
    moduleName := s"pillarbox-spark_$sparkLine",
    crossVersion := CrossVersion.disabled,
    pomPostProcess := withoutDependencies,
    publishTo := Some(Resolver.file("dist", (ThisBuild / baseDirectory).value / "dist" / "maven")),
    // Many queries over little data: what the second compiler takes, it doesn't give back.
    // With that alone the code of all queries would not fit into the code cache.
    Test / javaOptions ++= Seq("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"),
    libraryDependencies ++= (
      if (sparkLine == mainLine)
        Seq("spark-sql", "spark-connect").map("org.apache.spark" %% _ % sparkVersion % Provided)
      else Nil
    ),
    Compile / unmanagedJars ++= (
      if (sparkLine == mainLine) Nil
      else Attributed.blankSeq(jarsOfLine((ThisBuild / baseDirectory).value))
    ),
    Compile / unmanagedSourceDirectories ++= foldersOfLine((Compile / sourceDirectory).value),
    target := (if (sparkLine == mainLine) target.value else target.value / s"spark-$sparkLine"),
    // The worker's Python sources travel inside the jar, so an executor needs no pip install of ours.
    Compile / unmanagedResourceDirectories += (ThisBuild / baseDirectory).value / "python" / "src",
    Compile / unmanagedResources / excludeFilter := HiddenFileFilter || "*.pyc" || "__pycache__" || "*.jar",
    Compile / resourceGenerators += versionResource.taskValue,
    // Documented are the public types: the rest is private to the project, but for the adapters in Spark's packages.
    Compile / doc / sources ++= (api / Compile / sources).value,
    Compile / doc / scalacOptions ++=
      Seq(
        "-doc-title",
        "Pillarbox",
        "-doc-version",
        version.value,
        "-skip-packages",
        "org",
        "-no-link-warnings"
      ),
    Compile / doc / scalacOptions --= Seq("-Xfatal-warnings", "-Werror"),
    // One thin jar for users: ours alone, all modules together.
    Compile / packageBin / mappings ++= (Compile / packageBin / mappings).all(ofCore).value.flatten,
    Compile / packageSrc / mappings ++= (Compile / packageSrc / mappings).all(ofCore).value.flatten,
    Compile / packageBin / mappings += (ThisBuild / baseDirectory).value / "LICENSE" -> "META-INF/LICENSE",
    Compile / packageBin / packageOptions += Package.ManifestAttributes("Spark-Line" -> sparkLine),
    Compile / packageBin / artifactPath := (ThisBuild / baseDirectory).value / "target" / s"pillarbox-spark_$sparkLine-${version.value}.jar"
  )

lazy val bench = (project in file("jvm/bench"))
  .dependsOn(spark)
  .enablePlugins(JmhPlugin)
  .disablePlugins(MimaPlugin)
  .settings(
    name := "pillarbox-bench",
    publish / skip := true,
    ivyConfigurations += FlinkRocksDB,
    libraryDependencies ++= flinkPeers ++ Seq(
      "org.rocksdb" % "rocksdbjni" % "9.8.4",
      "org.slf4j" % "slf4j-nop" % "2.0.17",
      "io.dropwizard.metrics" % "metrics-core" % "4.2.37",
      "com.ververica" % "frocksdbjni" % "8.10.0-ververica-1.0" % FlinkRocksDB
    ),
    javaOptions ++= moduleOpens :+ "-Djmh.ignoreLock=true",
    javaOptions += update.value
      .select(configurationFilter(FlinkRocksDB.name))
      .mkString("-Dpillarbox.bench.frocksdb=", java.io.File.pathSeparator, "")
  )

lazy val jars = taskKey[Unit]("writes the paths of a project's jars to target/jars, a file for each purpose")

/** Without netty, which Spark has. */
def listJars(root: File, found: UpdateReport, parts: Configuration*): Unit =
  parts.foreach { part =>
    val files = found.select(configurationFilter(part.name)).filterNot(_.getName.matches("netty-[a-z-]+4.*"))
    IO.writeLines(root / "target" / "jars" / s"${part.name}.txt", files.map(_.getAbsolutePath))
  }

/** A Kafka broker, and Spark's source and sink for it: of `make test-kafka`, which runs them beside Spark. */
val KafkaBroker = config("kafkaBroker").hide
val KafkaConnector = config("kafkaConnector").hide
lazy val kafka = (project in file("jvm/kafka"))
  .disablePlugins(MimaPlugin)
  .settings(
    publish / skip := true,
    ivyConfigurations ++= Seq(KafkaBroker, KafkaConnector),
    libraryDependencies ++= Seq(
      "org.apache.kafka" %% "kafka" % "3.9.2" % KafkaBroker,
      "org.slf4j" % "slf4j-simple" % "1.7.36" % KafkaBroker,
      "org.apache.spark" %% "spark-sql-kafka-0-10" % sparkVersion % KafkaConnector intransitive (),
      "org.apache.spark" %% "spark-token-provider-kafka-0-10" % sparkVersion % KafkaConnector intransitive (),
      "org.apache.kafka" % "kafka-clients" % "3.9.2" % KafkaConnector intransitive (),
      "org.apache.commons" % "commons-pool2" % "2.13.1" % KafkaConnector intransitive ()
    ),
    jars := listJars((ThisBuild / baseDirectory).value, update.value, KafkaBroker, KafkaConnector)
  )

/** Delta Lake, for the main line of Spark, which brings its other libraries: of `make test-integration`. */
val Delta = config("delta").hide
lazy val delta = (project in file("jvm/delta"))
  .disablePlugins(MimaPlugin)
  .settings(
    publish / skip := true,
    ivyConfigurations += Delta,
    libraryDependencies ++= Seq(
      "spark_4.2_2.13",
      "storage",
      "kernel-api",
      "kernel-defaults",
      "kernel-unitycatalog"
    )
      .map(part => "io.delta" % s"delta-$part" % "4.4.0" % Delta intransitive ()),
    jars := listJars((ThisBuild / baseDirectory).value, update.value, Delta)
  )

/**
 * HDFS and YARN in one process each, and what Spark needs for S3: of `make test-stores` and `make test-yarn`. Spark brings
 * the libraries that they need, but for those of YARN. Of the SDK the parts that the connector uses: its own bundle of all
 * services takes more than half a gigabyte.
 */
val hadoopVersion = "3.5.0"
val awsVersion = "2.35.4"
val MiniCluster = config("miniCluster").hide
val Yarn = config("yarn").hide
val S3A = config("s3a").hide
lazy val hadoop = (project in file("jvm/hadoop"))
  .disablePlugins(MimaPlugin)
  .settings(
    publish / skip := true,
    ivyConfigurations ++= Seq(MiniCluster, Yarn, S3A),
    libraryDependencies ++= Seq(
      "org.apache.hadoop" % "hadoop-client-minicluster" % hadoopVersion % MiniCluster intransitive (),
      "org.junit.jupiter" % "junit-jupiter-api" % "5.11.4" % Yarn,
      "org.apache.hadoop" % "hadoop-aws" % hadoopVersion % S3A intransitive (),
      "software.amazon.s3.analyticsaccelerator" % "analyticsaccelerator-s3" % "1.3.1" % S3A intransitive (),
      "org.wildfly.openssl" % "wildfly-openssl" % "2.2.5.Final" % S3A intransitive (),
      "org.apache.httpcomponents" % "httpclient" % "4.5.13" % S3A
    ),
    libraryDependencies ++= Seq("bcprov", "bcpkix", "bcutil")
      .map(part => "org.bouncycastle" % s"$part-jdk18on" % "1.80" % Yarn intransitive ()),
    libraryDependencies ++= Seq("s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
      .map(part => ("software.amazon.awssdk" % part % awsVersion % S3A).exclude("org.slf4j", "slf4j-api")),
    jars := listJars((ThisBuild / baseDirectory).value, update.value, MiniCluster, Yarn, S3A)
  )

/** Maven's description of an artifact without dependencies: all that ours needs is on Spark's own class path. */
def withoutDependencies(pom: scala.xml.Node): scala.xml.Node = pom match {
  case whole: scala.xml.Elem => whole.copy(child = whole.child.filter(_.label != "dependencies"))
  case other => other
}

/** What tells development builds of one version apart; empty for a release, and outside of a checkout. */
def commitOf(version: String): String =
  if (!version.contains(".dev")) ""
  else scala.util.Try(scala.sys.process.Process("git rev-parse --short=12 HEAD").!!.trim).getOrElse("")

lazy val versionResource = Def.task {
  val target = (Compile / resourceManaged).value / "io" / "pillarbox" / "version.properties"
  val text = s"version=${version.value}\nspark=$sparkLine\ncommit=${commitOf(version.value)}\n"
  // A file that is written again makes the jar be packed again, under Python tests that use it.
  if (!target.exists || IO.read(target) != text) IO.write(target, text)
  Seq(target)
}
