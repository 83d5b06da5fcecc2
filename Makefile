# Two commands: `make run` opens the workbench, `make test` proves it. Both set up what they need.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test test-fast drills check audit build docs bench pictures set-up format clean help

# A process a core. The files with pages come first (tests/tiers.py), so that all processes end at about the same time.
SPREAD = $(if $(RANKBOOK_TEST_DSN),,--numprocesses=auto --maxprocesses=4 --dist=loadfile --no-loadscope-reorder)

# What is compiled once need not be compiled again by each process that the tests start.
unexport PYTHONDONTWRITEBYTECODE

help:  ## say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

set-up:  ## make .venv ready; costs little when it is
	@$(PYTHON) .ci/set_up.py

run: set-up  ## open the workbench, the first time with the demo collection
	@$(BIN)/rankbook

test:  ## what a change must pass: the fast tier, the real model, pages, a browser; ARGS say otherwise
	@$(PYTHON) .ci/set_up.py --browser
	@$(BIN)/python -m pytest $(or $(ARGS),$(SPREAD))

test-fast: set-up  ## what needs neither the model nor a page, in under two minutes
	@$(BIN)/python -m pytest --fast $(or $(ARGS),$(SPREAD))

drills: set-up  ## what proves a promise by taking long: ARGS=faults for a part, ARGS=all for all at length
	@$(BIN)/python -m tests.drills $(ARGS)

check: set-up  ## lint, types, import direction, no Python in datasets/
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@! find datasets -name '*.py' | grep . || (echo "datasets/ holds data only: move the Python elsewhere"; exit 1)

audit: set-up  ## known holes of what is installed, where their list can be reached; fails nothing
	@$(BIN)/python .ci/supply_chain.py audit

build: set-up  ## a wheel and a source archive in dist/, and beside them what they stand on (an SBOM)
	@$(BIN)/python -m build --no-isolation --outdir dist
	@$(BIN)/python .ci/supply_chain.py sbom dist/rankbook.cdx.json

docs: set-up  ## write the pages of docs/ that repeat the code
	@$(BIN)/python -m tests.docs_pages

bench: set-up  ## measure, against peers in the same run; ARGS=results writes docs/results.md
	@$(BIN)/python -m tests.bench $(ARGS)

pictures: set-up  ## take the pictures of README and docs again
	@$(BIN)/python -m tests.browser.pictures

format: set-up  ## put every file into shape
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

clean:  ## remove the environment and all caches; collections are kept
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
