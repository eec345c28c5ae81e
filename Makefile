# The one entry to everything. `make help` lists the targets.
SHELL := bash
VENV := .venv
PYTHON := $(VENV)/bin/python
VERSION := $(shell sed -n 's/.*"\(.*\)"/\1/p' python/src/pillarbox/_version.py)
# The lines of Spark: the one of `make jar` and `make test`, and all.
LINE := $(shell sed -n 's/^main=//p' project/lines.properties)
LINES := $(shell sed -n 's/^\([0-9.]*\)=.*/\1/p' project/lines.properties)
SPARK := $(shell sed -n 's/^$(LINE)=//p' project/lines.properties)
JAR := target/pillarbox-spark_$(LINE)-$(VERSION).jar
# From the bottom up, as in build.sbt.
MODULES := api mailbox state metered async spark
# The jar names its commit, so that a commit makes another one: sbt would else pack it anew while tests use it.
JAR_SOURCES := build.sbt $(wildcard project/*.sbt project/*.properties $(shell git rev-parse --git-path logs/HEAD 2>/dev/null)) \
  $(shell find $(MODULES:%=jvm/%/src) python/src -type f -not -name '*.pyc' -not -name '*.jar' 2>/dev/null)

# What `make test` runs, see tools/run_tests.
SUITES := main
# The programs of `make soak-kills`, from which seed on.
N := 300
SEED := 1

# Spark's workers must run on the interpreter that has the packages.
export PYSPARK_PYTHON := $(CURDIR)/$(PYTHON)

.PHONY: help demo quick test test-all test-module jars link-check api-baseline test-jvm test-python test-kafka test-integration test-stores test-yarn check fmt lint types jar wheel release docs bench soak soak-kills coverage clean tools

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.demo $(JAR) ## run the main job on real flights (about three minutes after set-up)
	cd examples && ../$(PYTHON) -m flight_weather
	cd examples && ../$(PYTHON) -m flight_rotation

quick: $(VENV)/.dev $(JAR) ## what to run after each change: fast suites, and Python tests, that start no Spark (two minutes)
	@tools/run_tests quick

test: $(VENV)/.dev $(JAR) ## all that shows that the library works, JVM and Python (ten minutes)
	@tools/run_tests $(SUITES)

test-jvm: tools ## the tests of the JVM library, and that its public types stay compatible
	tools/sbt test spark/mimaReportBinaryIssues

test-module: tools ## fast suites of one module of the JVM: M=api, mailbox, state, metered, async or spark
	$(if $(filter $(MODULES),$(M)),tools/sbt "$(M)/testOnly * -- -l org.scalatest.tags.Slow",$(error make test-module M=MODULE, one of: $(MODULES)))

test-python: $(VENV)/.dev $(JAR) ## the tests of the Python package
	cd python && ../$(PYTHON) -m pytest -n 3 --dist loadfile --no-loadscope-reorder

test-all: ## everything whole: `make test`, all kills and clusters, all lines of Spark, other Pythons (two hours)
	@$(MAKE) --no-print-directory test SUITES="main nightly connect integration lines upgrades pythons"

check: lint types test ## format, lint, types and tests

lint: $(VENV)/.dev ## formatting and lint, without changing anything
	tools/sbt scalafmtCheckAll scalafmtSbtCheck "scalafixAll --check"
	$(VENV)/bin/ruff format --check --config python/pyproject.toml python tests examples benchmarks tools
	$(VENV)/bin/ruff check --config python/pyproject.toml python tests examples benchmarks tools

types: $(VENV)/.dev ## static types: of the package, the docs' examples and a file of mistakes
	cd python && ../$(VENV)/bin/mypy
	cd python && ../$(PYTHON) -m pytest -q -c pyproject.toml -m types ../tests/python/test_types.py

fmt: $(VENV)/.dev ## format everything
	tools/sbt scalafixAll scalafmtAll scalafmtSbt
	$(VENV)/bin/ruff format --config python/pyproject.toml python tests examples benchmarks tools
	$(VENV)/bin/ruff check --fix --config python/pyproject.toml python tests examples benchmarks tools

test-kafka: $(VENV)/.dev $(JAR) tools ## from Kafka to Kafka, with a broker of its own (three minutes)
	tools/sbt kafka/jars
	cd python && ../$(PYTHON) -m pytest -q -m kafka ../tests/python/test_real_time_kafka.py ../tests/python/test_read_offsets_kafka.py ../tests/python/test_docs_kafka.py

test-integration: $(VENV)/.dev $(JAR) tools ## beside PostgreSQL, Delta Lake and Kafka, all on this machine (five minutes)
	tools/integration delta kafka
	cd python && ../$(PYTHON) -m pytest -q -rs -m "integration or kafka" ../tests/python/test_postgres_spark.py \
	  ../tests/python/test_delta_spark.py ../tests/python/test_real_time_kafka.py ../tests/python/test_read_offsets_kafka.py

test-stores: $(VENV)/.dev $(JAR) tools ## checkpoints on S3 and HDFS, both on this machine (forty minutes)
	$(PYTHON) -m pip install --quiet -e 'python[stores]'
	tools/sbt hadoop/jars
	cd python && ../$(PYTHON) -m pytest -q -m stores ../tests/python/test_stores.py ../tests/python/test_journal_stores.py

test-yarn: $(VENV)/.dev $(JAR) tools ## on a small YARN cluster, in client and in cluster mode (two minutes)
	tools/sbt hadoop/jars
	cd python && ../$(PYTHON) -m pytest -q -c pyproject.toml -m yarn ../tests/python/test_yarn.py

jar: $(JAR) ## the thin jar that users install

$(JAR): $(JAR_SOURCES) | tools
	tools/sbt spark/package
	@touch $@

jars: tools $(VENV)/.base ## the jars of all lines of Spark (LINES="4.1 4.2" for some)
	@for line in $(LINES); do tools/build_line $$line || exit 1; done

wheel: $(VENV)/.dev jars ## the Python wheel, with the jars inside
	cd python && ../$(PYTHON) -m build --wheel --outdir ../dist

release: $(VENV)/.dev tools ## build and check all that a release uploads, in dist, and upload nothing (six minutes)
	$(PYTHON) -m pip install --quiet -e 'python[release]'
	rm -rf dist
	@for line in $(LINES); do tools/build_line $$line spark/publish || exit 1; done
	cd python && ../$(PYTHON) -m build --outdir ../dist
	$(PYTHON) tools/release_check.py

docs: $(VENV)/.docs tools ## the site, in docs/_build/html; the public Java and Scala types in its folder scaladoc
	$(VENV)/bin/sphinx-build -W -b html docs docs/_build/html
	tools/sbt spark/doc
	rm -rf docs/_build/html/scaladoc && cp -r jvm/spark/target/scala-2.13/api docs/_build/html/scaladoc

bench: $(VENV)/.bench $(JAR) ## all benchmarks; writes docs/benchmarks (three hours on 2 cores)
	tools/run_bench

soak: $(VENV)/.dev $(JAR) ## long tests that `make test` leaves out (an hour and more)
	PILLARBOX_TESTS=Soak tools/sbt test
	cd python && ../$(PYTHON) -m pytest -q -m soak

soak-kills: $(VENV)/.dev $(JAR) ## N=300 random programs from SEED=1 on, whose workers, executors and drivers are killed (an hour and more)
	cd tests/python && ../../$(PYTHON) -m kills.campaign $(N) $(SEED)

link-check: jars ## look up in every release of Spark what the jars name (some gigabytes)
	$(PYTHON) tools/link_check.py --refresh

api-baseline: $(JAR) ## accept the public Java and Scala types as they are, after a release or a wanted break
	tools/api_baseline

coverage: tools ## what the tests of the JVM library reach, in target/coverage
	tools/coverage

clean: ## remove everything that was built here
	rm -rf target jvm/*/target project/target project/project .build .venv dist docs/_build demo-output

tools:
	@command -v java >/dev/null || { echo "pillarbox needs a JDK, version 17 or newer: no java on the PATH." >&2; exit 1; }
	@java -version 2>&1 | awk -F'"' '/version/ { split($$2, v, "."); if (v[1] < 17) { print "pillarbox needs a JDK, version 17 or newer, found " $$2; exit 1 } }'
	@command -v javac >/dev/null || { echo "pillarbox needs a JDK, not only a JRE: no javac on the PATH." >&2; exit 1; }
	@command -v mvn >/dev/null || command -v sbt >/dev/null || { echo "pillarbox needs Maven (mvn) or sbt on the PATH." >&2; exit 1; }

$(PYTHON):
	@command -v python3 >/dev/null || { echo "pillarbox needs Python, version 3.10 or newer: no python3 on the PATH." >&2; exit 1; }
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 10) and f"pillarbox needs Python 3.10 or newer, found {sys.version.split()[0]}")'
	python3 -m venv $(VENV)

$(VENV)/.base: python/pyproject.toml project/lines.properties | $(PYTHON)
	$(PYTHON) -m pip install --quiet --upgrade pip
	$(PYTHON) -m pip install --quiet -e python pyspark==$(SPARK)
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PYTHON) -m pip install --quiet -e 'python[dev]'
	@touch $@

$(VENV)/.demo: $(VENV)/.base
	$(PYTHON) -m pip install --quiet -e 'python[demo]'
	@touch $@

$(VENV)/.bench: $(VENV)/.base
	$(PYTHON) -m pip install --quiet -e 'python[bench]'
	@touch $@

$(VENV)/.docs: $(VENV)/.base
	$(PYTHON) -m pip install --quiet -e 'python[docs]'
	@touch $@
