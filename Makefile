# Needs Python >= 3.11, make and coreutils; nothing else. The environments are made here, on first use.

PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)

# One environment for plain python3, one per version for any other, so that none destroys another.
VENV := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(basename $(VERSION)))
BIN := $(VENV)/bin

# Stamps carry the version: when python3 becomes another Python, they are gone and the environment is made anew.
MADE := $(VENV)/.made-$(VERSION)
DEMO := $(VENV)/.demo-$(VERSION)
MODELS := $(VENV)/.models-$(VERSION)
DEV := $(VENV)/.dev-$(VERSION)
LANGCHAIN := $(VENV)/.langchain-$(VERSION)

# LangChain has an environment of its own, so that all other tests prove that nothing needs it. These same rules make and
# use it when VENV names it.
ELSEWHERE := $(if $(filter python3,$(PYTHON)),.venv-langchain,.venv-langchain-$(basename $(VERSION)))
COMMA := ,
THERE = $(MAKE) --no-print-directory VENV=$(ELSEWHERE)

EVERY_BRANCH := durable_graph/core/*,durable_graph/channels/*,durable_graph/records.py
SUPPORTED := 3.11 3.12 3.13
PYTEST = $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadgroup

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start a thousand processes; none is to compile again what another one has.
unexport PYTHONDONTWRITEBYTECODE

# The folder of another PostgreSQL's programs, and of a pgbouncer, for the tests.
export PG_BIN PGBOUNCER

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo agent-demo test test-all suite langchain langchain-here lint types chaos bench format coverage clean

define HELP
make demo        triage a log with an agent graph that survives a crash   (LOG=path for your own log)
make agent-demo  an agent is killed inside a tool call, goes on, and asks  (LOG=path, MODEL=provider:name)
make test        the test suite                                           (ARGS="-k resume" goes to pytest)
                 PG_BIN=/usr/lib/postgresql/15/bin: with this PostgreSQL instead of the one that pip installs
make langchain   the part of it that needs LangChain, which is installed in .venv-langchain
make test-all    the same and the slow tests, on each of Python $(SUPPORTED) found here
make lint        ruff, formatting, import floors
make types       basedpyright on the packages, mypy on tests/typing
make chaos       workers killed and frozen, the database restarted: 200 runs (ARGS="--seed 7 --backend sqlite")
make bench       timings side by side with LangGraph and DBOS             (ARGS=... goes to the benchmark)
make format      let ruff rewrite what it can
make coverage    the whole suite with branch coverage; fails below the floor
make clean       remove environments, caches and build output

PYTHON=python3.12 picks another Python. Plain python3 lives in .venv, any other in .venv-<version> (.venv-3.12).
uv is used when it is on the PATH, else venv and pip. Versions are pinned in constraints.txt.
endef

help:
	$(info $(HELP))
	@:

# --- environments ----------------------------------------------------------------------------------------------------

CURE = Install Python 3.11 or newer, or name one that you have: make $(MAKECMDGOALS) PYTHON=python3.12

$(MADE):
	@test -n "$(VERSION)" || { echo "error: '$(PYTHON)' does not run. $(CURE)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "error: '$(PYTHON)' is Python $(VERSION), which is too old. $(CURE)" >&2; exit 1; }
	@echo "creating $(VENV) with Python $(VERSION) ..."
	@rm -rf $(VENV)
	@if command -v uv >/dev/null 2>&1; \
	then uv venv -q --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV); \
	else $(PYTHON) -m venv $(VENV); fi
	@touch $@

# $(call install,WHAT): into the environment, editable, at the pinned versions. setuptools first, because without build
# isolation its version is pinned too. -qq keeps pip's notices away, not its errors.
define install
if command -v uv >/dev/null 2>&1; \
then pip="uv pip install -q --python $(BIN)/python -c constraints.txt"; \
else pip="$(BIN)/python -m pip install -qq -c constraints.txt"; fi; \
$$pip setuptools && $$pip --no-build-isolation -e '$(1)'
endef

$(DEMO): $(MADE) pyproject.toml constraints.txt
	@echo "installing durable_graph into $(VENV) ..."
	@$(call install,.)
	@touch $@

$(MODELS): $(MADE) pyproject.toml constraints.txt
	@echo "installing durable_graph and models of providers into $(VENV) ..."
	@$(call install,.[models])
	@touch $(DEMO) $@

$(DEV): $(MADE) pyproject.toml constraints.txt
	@echo "installing durable_graph and its development tools into $(VENV) ..."
	@$(call install,.[dev])
	@touch $(DEMO) $(MODELS) $@

$(LANGCHAIN): $(MADE) pyproject.toml constraints.txt
	@echo "installing durable_graph and LangChain into $(VENV) ..."
	@$(call install,.[langchain$(COMMA)models$(COMMA)test])
	@touch $@

# --- what people run -------------------------------------------------------------------------------------------------

demo: $(DEMO)
	@$(BIN)/python examples/log_triage.py $(if $(LOG),"$(LOG)")

# A real model needs the libraries of providers; the scripted one needs nothing.
agent-demo: $(if $(MODEL),$(MODELS),$(DEMO))
	@$(BIN)/python examples/incident_agent.py $(if $(MODEL),--model "$(MODEL)") $(if $(LOG),"$(LOG)")

# With ARGS, which select a few tests, LangChain's are left out: make langchain ARGS=... runs those.
test: $(DEV) $(if $(ARGS),,langchain)
	@$(PYTEST) -m "not slow" $(ARGS)

# The whole suite on one Python; test-all runs it on each.
suite: $(DEV) $(if $(ARGS),,langchain)
	@$(PYTEST) $(ARGS)

langchain:
	@$(THERE) langchain-here

langchain-here: $(LANGCHAIN)
	@$(PYTEST) $(if $(ARGS),$(ARGS),--cov --cov-config=tests/langchain/coverage.ini) tests/langchain

# A pyenv shim stands on the PATH for Pythons that it then refuses to run, so each candidate is tried.
test-all:
	@found=; \
	for version in $(SUPPORTED); do \
	    which=; \
	    for python in $(PYTHON) python$$version "$$HOME"/.pyenv/versions/$$version.*/bin/python$$version; do \
	        if $$python -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$$version')" >/dev/null 2>&1; \
	        then which=$$python; break; fi; \
	    done; \
	    if test -n "$$which"; then found="$$found $$which"; \
	    else echo "missing: Python $$version is not on this machine; nothing is tested on it"; fi; \
	done; \
	test -n "$$found" || { echo "error: none of Python $(SUPPORTED) found" >&2; exit 1; }; \
	failed=; \
	for python in $$found; do \
	    echo "--- $$($$python --version)"; \
	    $(MAKE) --no-print-directory suite PYTHON=$$python || failed="$$failed $$python"; \
	done; \
	test -z "$$failed" || { echo "failed on:$$failed" >&2; exit 1; }

lint: $(DEV)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports

types: $(DEV)
	@$(THERE) $(ELSEWHERE)/.langchain-$(VERSION)
	@$(BIN)/basedpyright --pythonpath $(ELSEWHERE)/bin/python
	@$(BIN)/mypy --strict tests/typing

chaos: $(DEV)
	@$(BIN)/python -m tests.chaos $(ARGS)

bench: $(DEV)
	@$(BIN)/python tests/performance/bench.py $(ARGS)

format: $(DEV)
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

# Two floors: coverage.report.fail_under for all, and every branch where a decision is taken or a value accumulates.
coverage: $(DEV)
	@$(PYTEST) --cov --cov-report=term-missing:skip-covered $(ARGS)
	@echo "where every branch counts:"
	@$(BIN)/coverage report --include='$(EVERY_BRANCH)' --fail-under=100

clean:
	@rm -rf .venv .venv-* .bench-venv .demo build dist *.egg-info .coverage .coverage.* htmlcov
	@rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@for depth in '*' '*/*' '*/*/*' '*/*/*/*'; do rm -rf $$depth/__pycache__; done
