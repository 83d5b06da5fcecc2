# Two commands: `make run` opens the workbench, `make test` proves it. Both set up what they need.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test check bench pictures set-up format clean help

help:  ## say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

set-up:  ## make .venv ready; costs little when it is
	@$(PYTHON) .ci/set_up.py

run: set-up  ## open the workbench, the first time with the demo collection
	@$(BIN)/rankbook

test:  ## run every test, in several processes unless they share a server or ARGS say otherwise
	@$(PYTHON) .ci/set_up.py --browser
	@$(BIN)/python -m pytest $(if $(ARGS)$(RANKBOOK_TEST_DSN),$(ARGS),--numprocesses=auto --maxprocesses=4 --dist=loadfile)

check: set-up  ## lint, types, import direction, no Python in datasets/
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@! find datasets -name '*.py' | grep . || (echo "datasets/ holds data only: move the Python elsewhere"; exit 1)

bench: set-up  ## measure what the README claims, against peers in the same run
	@$(BIN)/python -m tests.bench $(ARGS)

pictures: set-up  ## take the README's pictures of the demo collection again
	@$(BIN)/python -m tests.browser.pictures

format: set-up  ## put every file into shape
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

clean:  ## remove the environment and all caches; collections are kept
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
