# Everything runs in .venv, which the first target that needs it makes.
#
#   make demo    the whole job in the terminal, then JupyterLab on the quickstart
#   make test    every test, browser and JavaScript included
#   make lint    ruff, mypy, and tsc over the JavaScript
#   make wheel   build the wheel, install it into a clean environment, use it
#   make bench   what tracing, striking and drawing cost, and how much memory it takes
#   make soak    what takes longer than `make test` may
#
# PYTHON=python3.12 chooses another Python; CHROMIUM=/path/to/chromium another browser;
# PROCESSES=0 runs the tests in one process, where a debugger can stop them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
BIN := .venv/bin
STAMPS := .venv/.stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check
PINNED := --constraint tests/constraints.txt
PROCESSES ?= 2
SHOWN := lab
EXTRAS := $(SHOWN),teach,campaign,test,lint
BENCHMARKS := $(basename $(notdir $(wildcard tests/benchmarks/bench_*.py)))
PYTEST := OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest
TSC := tests/js/node_modules/.bin/tsc

.PHONY: demo test lint wheel bench soak install browser node format clean

demo: $(STAMPS)/demo
	$(BIN)/fi-notebook demo --no-lab
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/01_quickstart.ipynb

test: install browser $(TSC)
	$(PYTEST) -m "not soak" -n $(PROCESSES) --dist worksteal --durations 15 $(ARGS) \
	  || { echo "what failed, or lost its process, once more and alone:"; \
	  $(PYTEST) -m "not soak" --last-failed --last-failed-no-failures none; }

soak: install browser node
	$(BIN)/python -m pytest -m soak --timeout 3600 $(ARGS)

bench: $(STAMPS)/benchmarks
	for name in $(BENCHMARKS); do echo "── $$name"; $(BIN)/python -m tests.benchmarks.$$name; done

lint: install $(TSC)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(TSC) --project tests/js

format: install
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

wheel: install
	rm -rf dist
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	$(BIN)/python -m tests.tools.wheel dist/*.whl

install: $(STAMPS)/installed

browser: install
	$(BIN)/python -m tests.tools.chromium --install

node:
	@command -v node > /dev/null || { echo \
	  "node was not found: the JavaScript tests need Node.js 18 or later on PATH" >&2; exit 1; }

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("Python 3.10 or later is needed; choose one with PYTHON=…")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	mkdir -p $(STAMPS)
	touch $@

# What the demo needs, with pip's own progress: torch and JupyterLab take minutes to arrive.
$(STAMPS)/demo: pyproject.toml tests/constraints.txt | $(STAMPS)/venv
	@echo "Installing PyTorch and JupyterLab into .venv (once; some minutes) …"
	$(PIP) install $(PINNED) hatchling
	$(PIP) install $(PINNED) --no-build-isolation --editable ".[$(SHOWN)]"
	touch $@

$(STAMPS)/installed: pyproject.toml tests/constraints.txt | $(STAMPS)/venv
	@echo "Installing everything that tests and lint need into .venv (once; some minutes) …"
	$(PIP) install --quiet $(PINNED) hatchling
	$(PIP) install --quiet $(PINNED) --no-build-isolation --editable ".[$(EXTRAS)]"
	touch $(STAMPS)/demo $@

# torchlens, beside which a step is timed.
$(STAMPS)/benchmarks: $(STAMPS)/installed
	$(PIP) install --quiet $(PINNED) --no-build-isolation --editable ".[bench]"
	touch $@

$(TSC): tests/js/package.json tests/js/package-lock.json | node
	npm ci --silent --no-audit --no-fund --prefix tests/js
	touch $@

clean:
	rm -rf .venv dist tests/js/node_modules .pytest_cache .mypy_cache .ruff_cache test-results
