# The whole project from a fresh clone: `make demo` shows it, `make dev` opens it, `make test` proves it.

.DEFAULT_GOAL := help
.PHONY: help install demo demo-aws demo-stream dev docs test test-fast test-long test-connect soak outside drills chaos mixture proof bench bench-full bench-plot bench-latency lint audit clean

# The first of these that is Python 3.11 or later makes .venv; `make install PYTHON=/path/to/python` chooses another.
PYTHON ?= python3.11
INSTALLED := .venv/.installed
JARS := .venv/.jars

help:  ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

install: $(JARS)  ## create .venv with everything in it

# A stamp, so that nothing is installed twice and everything after the first time works without a network.
# --no-build-isolation: packages that are built on the spot (PySpark) are built with the pinned setuptools.
$(INSTALLED): setup.cfg constraints.txt
	@found=; for python in "$(PYTHON)" python3.11 python3; do \
		if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "lake_assets needs Python 3.11 or later, and neither $(PYTHON) nor python3 is one: install it (apt-get install python3 python3-venv) or name it with make install PYTHON=/path/to/python." >&2; \
		exit 1; \
	fi; \
	"$$found" packages.py demo || exit 1; \
	echo "Installing into .venv with $$("$$found" --version); this takes a minute or two, once."; \
	"$$found" -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -U setuptools wheel
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

# Spark's jars, into the cache that Spark itself uses, and an archive of its classes.
$(JARS): $(INSTALLED)
	@echo "Fetching Spark's jars, once."
	@.venv/bin/python -m lake_assets.spark.fetch >.venv/jars.log 2>&1 || { tail -n 5 .venv/jars.log >&2; exit 1; }
	@touch $@

demo: $(JARS)  ## a lake of bike trips on this machine, from DMS files to marts
	.venv/bin/lake-assets demo run

# Files in S3, S3's events in a queue, tables in Glue: moto has these services in this process.
demo-aws: $(JARS)  ## the same on S3, SQS and Glue, which moto has here: history, live changes, comparison, Trino if it is there
	.venv/bin/python -m lake_assets_tests.aws_demo .lake/aws 20000

demo-stream: $(JARS)  ## the same source through Kafka, whose broker starts here: history, live changes, latency
	.venv/bin/lake-assets demo stream

STREAM ?=
dev: $(JARS)  ## Dagster's UI and daemon on that lake, with a live feed of new files (STREAM=1: through Kafka)
	.venv/bin/lake-assets $(if $(STREAM),demo stream --ui,dev --feed)

# Only the tests below this path, and the slowest are printed.
TESTS ?=
# With PYTHONDONTWRITEBYTECODE, as in some containers, each of a hundred processes would compile the package again.
PYTEST := PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=50 $(TESTS)

# Without them, the tests in a browser and those with PostgreSQL are skipped.
TEST_PACKAGES := .venv/.packages
$(TEST_PACKAGES): packages.py $(JARS)
	@.venv/bin/python packages.py test && touch $@ || echo "Going on: the tests that need it are skipped." >&2

# Amazon EMR's Spark, with which one test runs the main job.
OLDER_SPARK := .venv/.older_spark
$(OLDER_SPARK): $(INSTALLED)
	@echo "Installing PySpark 4.0 for a test; this takes a minute, once."
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --upgrade --target .venv/older_spark pyspark==4.0.2 && touch $@ || echo "Going on: the test that needs it is skipped." >&2

test: $(TEST_PACKAGES) $(OLDER_SPARK)  ## the tests, 25 minutes on two cores
	$(PYTEST) -m "not long"

test-fast: $(JARS)  ## those that need no Spark and start no processes that take long, two minutes
	$(PYTEST) -m "not long and not slow and not spark"

test-connect: $(JARS)  ## those that use Spark, on one Spark Connect server instead of a Spark in each process
	LAKE_TEST_SPARK=connect $(PYTEST) -m "spark and not long"

# A query engine with a Java of its own, for one of the long tests.
TRINO := .venv/.trino
$(TRINO): $(INSTALLED)
	@echo "Fetching Trino for a test; this takes some minutes and 600 MB, once."
	@.venv/bin/python -m lake_assets_tests.helpers.warehouses.trino .venv/trino && touch $@ || echo "Going on: the test that needs it is skipped." >&2

test-long: $(JARS) $(TRINO)  ## those that take long (two hours), of which a shorter one is among the tests
	$(PYTEST) -m long

# Histories, the first one's seed, and further options such as --stream, --minutes 60 or --only composite,reloads.
N ?= 2000
SEED ?= 0
OPTIONS ?=
soak: $(JARS)  ## N random histories, each compared with its source (N=2000 SEED=0)
	.venv/bin/python -m lake_assets_tests.soak --histories $(N) --seed $(SEED) $(OPTIONS)

outside: N = 300
outside: $(JARS)  ## N random histories with actions from outside (N=300 SEED=0)
	.venv/bin/python -m lake_assets_tests.outside --histories $(N) --seed $(SEED) $(OPTIONS)

# ONLY: a text in the first column of the rows that are done.
ONLY ?=
drills: $(JARS)  ## each row of docs/outside_changes.md: done, seen, mended by its command, compared (ONLY="names")
	.venv/bin/python -m lake_assets_tests.drills --only "$(ONLY)"

# Rows of the table; OPTIONS such as --only uniform.
ROWS ?= 10000000
bench: $(JARS)  ## batches of changes on a large table, beside a textbook MERGE and a floor (ROWS=10000000)
	.venv/bin/python -m benchmarks.large_tables --rows $(ROWS) $(OPTIONS)

# Engines that need other versions than ours of Spark or DuckDB have an environment each.
ENGINES := $(patsubst benchmarks/large_tables/others/%.txt,.venv/others/%,$(wildcard benchmarks/large_tables/others/*.txt))
.venv/others/%: benchmarks/large_tables/others/%.txt $(INSTALLED)
	.venv/bin/python -m venv $@
	$@/bin/python -m pip install --quiet --requirement $<
	@touch $@

bench-full: $(JARS) $(ENGINES)  ## the same with further contenders, most of which take many times as long
	.venv/bin/python -m pip install --quiet --constraint constraints.txt deltalake
	.venv/bin/python -m benchmarks.large_tables --rows $(ROWS) --all $(OPTIONS)

# Results that a benchmark wrote with --out; SVG is where the picture goes.
RESULTS ?= large_tables.json
SVG ?= docs/large_tables.svg
bench-plot: $(INSTALLED)  ## a bar chart of a benchmark's results (RESULTS="one.json other.json" SVG=docs/large_tables.svg)
	.venv/bin/python -m pip install --quiet --constraint constraints.txt matplotlib
	.venv/bin/python -m benchmarks.plot $(RESULTS) --svg $(SVG)

# Tables, rows of each, minutes; OPTIONS such as --large or --embedded.
TABLES ?= 5
MINUTES ?= 10
bench-latency: $(JARS)  ## how long after a file is visible silver and a mart have it (TABLES=5 MINUTES=10)
	.venv/bin/python -m benchmarks.latency --tables $(TABLES) --minutes $(MINUTES) $(OPTIONS)

chaos: $(JARS)  ## a lake whose services fail: Spark, Dagster, S3 and SQS fail at random (MINUTES=10 SEED=0 OPTIONS=--continuous)
	.venv/bin/python -m lake_assets_tests.chaos --minutes $(MINUTES) --seed $(SEED) $(OPTIONS)

mixture: $(JARS)  ## batches, marts, maintenance and erasures at random while others read (MINUTES=10 SEED=0)
	.venv/bin/python -m lake_assets_tests.mixture --minutes $(MINUTES) --seed $(SEED) $(OPTIONS)

# OPTIONS such as --histories 20 --streams 10 --outside 5 --minutes 1 --only lake_assets_tests/bronze for a shortened one.
proof: $(INSTALLED)  ## all of these at the newest commit, in a clone of it; goes on after an interruption (docs/proof.md)
	.venv/bin/python -m lake_assets_tests.proof $(OPTIONS)

docs: $(INSTALLED)  ## the reference of lake.yaml and of the commands, and the site in site/
	.venv/bin/python -m lake_assets.reference docs/reference
	.venv/bin/mkdocs build --strict

# In an environment of their own: they need other versions of the lake's packages.
POLICIES := .venv/.policies
$(POLICIES): $(INSTALLED)
	@echo "Installing linters of the stack's policies; this takes a minute, once."
	@.venv/bin/python -m venv .venv/policies && .venv/policies/bin/python -m pip install --quiet --disable-pip-version-check parliament==1.6.4 checkov==3.3.30 && touch $@ || echo "Going on: the policies are not checked." >&2

lint: $(INSTALLED) $(POLICIES)  ## style, formatting, layers, types, and what deploys the lake on AWS
	.venv/bin/ruff check
	.venv/bin/lint-imports
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/cfn-lint deploy/aws/stack.yaml
	.venv/bin/hadolint deploy/aws/Dockerfile
	@test -e $(POLICIES) || exit 0; set -x; \
	.venv/bin/python -m lake_assets_tests.deploy.stack_policies .venv/policies/of_roles && \
	.venv/policies/bin/parliament --directory .venv/policies/of_roles && \
	.venv/policies/bin/checkov --framework cloudformation --skip-download --quiet --compact --file deploy/aws/stack.yaml

# In an environment of its own, whose packages the lake does not need.
AUDIT := .venv/audit/bin/pip-audit
$(AUDIT): $(INSTALLED)
	@.venv/bin/python -m venv .venv/audit
	@.venv/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1

# --strict: a package that PyPI does not answer for is a failure, and not skipped.
audit: $(AUDIT)  ## compare the pinned packages with PyPI's advisories (needs PyPI's API)
	$(AUDIT) --strict --no-deps --disable-pip --requirement constraints.txt

clean:  ## remove .venv and caches; the lake in .lake stays
	rm -rf .venv .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .proof site .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -not -path './.lake/*' -prune -exec rm -rf {} +
