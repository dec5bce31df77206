# Every target makes its own environment in .venv; `make` alone lists them.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help up test figures quick check bench demo format docs clean
.DELETE_ON_ERROR:

BIN := .venv/bin
PYTHON := $(BIN)/python
LOCKED := pyproject.toml uv.lock scripts/bootstrap
SOURCES := $(wildcard src tests bench examples scripts)
WORKERS ?= 2
ARGS ?=
# A quick look does not wait for the disk, where there is another place.
IN_MEMORY := $(if $(wildcard /dev/shm/.),TMPDIR=/dev/shm)
FULL := GANGER_TEST_KILLS=10000 GANGER_TEST_STOPS=200 GANGER_TEST_DEATHS=200 GANGER_TEST_NODE_KILLS=50 GANGER_TEST_ENDS=1000 \
  GANGER_TEST_STORED=1000000 GANGER_TEST_FLOOD=1024 GANGER_TEST_JOIN=1000000 GANGER_TEST_CONDITIONS=100000 \
  GANGER_TEST_RUDE=1000 GANGER_TEST_SILENT=10000 GANGER_TEST_OVERLOAD=60 GANGER_TEST_REQUESTS=50000 GANGER_TEST_CLAIMS=100000 GANGER_TEST_AWAY=60 \
  GANGER_TEST_STRANGERS=10000 GANGER_TEST_STRANGERS_SLEEP=0.05 GANGER_TEST_FLIPS=1000 GANGER_TEST_ORPHANS=200 \
  GANGER_TEST_ROUNDS=100000 GANGER_TEST_ODD=2000 GANGER_TEST_HISTORY=1000000 GANGER_TEST_SOAK=1800 \
  GANGER_TEST_FAILOVERS=1000 GANGER_TEST_DOCUMENTS=200

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: .venv/.run ## run tasks here: server, upkeep and a node on ganger.db, with a live view
	@$(BIN)/ganger up $(ARGS)

test: check ## run every check and every test (sets itself up)
	$(PYTHON) -m pytest -q -n $(WORKERS) $(wildcard tests/unit tests/contract tests/model tests/protocol)
	$(PYTHON) -m pytest -q $(wildcard tests/system tests/chaos)

figures: .venv/.dev ## check the figures of reliability in their full sizes (takes hours)
	$(FULL) $(PYTHON) -m pytest -q -s tests/chaos/test_random_kills.py tests/chaos/test_disk_faults.py \
	  tests/chaos/test_disk_full.py tests/chaos/test_flips.py tests/chaos/test_failovers.py \
	  tests/model/test_documents_against_memory.py tests/system/test_dead_workers.py \
	  tests/system/test_guardian_restarts.py tests/system/test_guardian_kills.py tests/system/test_kills.py \
	  tests/system/test_orphans.py \
	  tests/system/test_restart_many.py tests/system/test_output_flood.py tests/system/test_guardian_load.py \
	  tests/system/test_join.py tests/system/test_many_conditions.py \
	  tests/system/test_server_rude.py tests/system/test_server_overload.py tests/protocol/v1/test_schema.py \
	  tests/system/test_crowd.py tests/system/test_strangers_shared.py tests/system/test_server_away.py \
	  tests/system/test_lost_wakeups.py tests/system/test_strangers_later.py tests/system/test_soak.py \
	  tests/system/test_sharing.py \
	  tests/contract/test_postgres_limits.py tests/contract/test_mongo_odd.py tests/contract/test_mongo_history.py

quick: .venv/.dev ## run unit and contract tests on memory and SQLite, in under a minute
	$(IN_MEMORY) $(PYTHON) -m pytest -q -n $(WORKERS) -m "not slow and not chaos and not servers" \
	  -o tmp_path_retention_policy=failed --ignore=tests/unit/bench $(wildcard tests/unit tests/contract)

check: .venv/.dev ## check format, lint, types, imports, house rules and docs
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports --no-logo
	$(PYTHON) -m pytest -q tests/architecture

bench: .venv/.bench ## measure against the peers: make bench ARGS="peers --json results.json"
	@$(PYTHON) -m bench $(ARGS)

demo: .venv/.dev ## see the promises kept: workers killed and stopped, nothing lost
	$(PYTHON) examples/demo.py

format: .venv/.dev ## format the code and fix what the linter can fix
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

docs: .venv/.dev ## draw again the pages that come from the code or from kept figures
	$(PYTHON) -m scripts.draw_states
	$(PYTHON) -m scripts.draw_engine
	$(PYTHON) -m scripts.draw_performance

clean: ## remove the environment and every cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

.venv/.run: $(LOCKED)
	@scripts/bootstrap
	@touch $@

.venv/.dev: $(LOCKED)
	@scripts/bootstrap dev
	@touch $@ .venv/.run

.venv/.bench: $(LOCKED)
	@scripts/bootstrap dev bench
	@touch $@ .venv/.dev .venv/.run
