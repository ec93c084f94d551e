# Every target does its own set-up: a fresh machine needs Python 3.11, pip, git and make.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
AGENTS := .venv/.agents
ARGS ?=

.PHONY: help setup agents demo test check lint types layers docs docs-current tests bench soak lock format clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

setup: $(READY)  ## the virtual environment, from requirements.lock; the other targets do this by themselves

$(READY): requirements.lock pyproject.toml scripts/setup
	@PYTHON="$(PYTHON)" scripts/setup

agents: $(AGENTS)  ## the agents themselves: claude and codex (700 MB) and, where there is npm, goose (315 MB)

$(AGENTS): $(READY) requirements-agents.lock
	@PYTHON="$(PYTHON)" scripts/setup agents
	@scripts/npm-agents

demo: $(READY)  ## the whole loop on a sample repository: no account, no key, no service
	@$(BIN)/resolvent demo $(ARGS)

test: check  ## all that CI runs: lint, types, layers, docs, then every test (ARGS="-k word" narrows)
	@scripts/system-packages
	@$(MAKE) tests

check: lint types layers docs-current  ## everything but the tests

lint: $(READY)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: $(READY)
	@$(BIN)/mypy

layers: $(READY)
	@$(BIN)/lint-imports --no-logo

docs-current: $(READY)
	@$(BIN)/python -m tests.conformance.report --check

tests: $(READY) $(AGENTS)
	@$(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)

docs: $(READY)  ## write the generated pages again (docs/conformance.md)
	@$(BIN)/python -m tests.conformance.report

bench: $(READY)  ## branches beside git worktree, hand-over, replay, cold start, each beside its bar (ARGS="--small": no 10 GB tree)
	@$(BIN)/python -m tests.bench $(ARGS)

soak: $(READY)  ## 10,000 random kills of whoever works on branches: nothing lost, nothing left (ARGS="--kills 500": fewer)
	@$(BIN)/python -m resolvent.testing.campaign --kills 10000 $(ARGS)

format: $(READY)  ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

lock:  ## resolve pyproject.toml anew and write requirements.lock (docs/decisions/0003)
	@PYTHON="$(PYTHON)" scripts/lock

clean:  ## remove the virtual environment and every cache
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
