# Everything a person or a machine runs here; `make up` and `make test` are the README's two commands.
.DEFAULT_GOAL := help
.PHONY: help setup up test check fix coverage conformance bench-scheduling
BIN := .venv/bin

help:
	@echo 'make up       run the whole demo on this machine (first run sets itself up)'
	@echo 'make test     run the tests (first run sets itself up)'
	@echo 'make check    format, lint, types, spelling, house rules'
	@echo 'make fix      let the formatter and the safe fixes do their work'
	@echo 'make coverage the tests again, with branch coverage'
	@echo 'make bench-scheduling  the order of the line against others, simulated'
	@echo 'make conformance  the same claims on stock SGLang, on the CPU (7 GB, ten minutes)'

.venv/ready: pyproject.toml constraints.txt scripts/setup.sh
	@scripts/setup.sh

tests/js/node_modules/ready: .venv/ready tests/js/package.json
	@scripts/setup.sh tests

setup: .venv/ready

up: .venv/ready
	@exec $(BIN)/turnout up $(ARGS)

test: tests/js/node_modules/ready
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile $(ARGS)

check: .venv/ready
	@$(BIN)/ruff format --check -q . || { echo 'check: run make fix'; exit 1; }
	@$(BIN)/ruff check -q .
	@$(BIN)/mypy
	@$(BIN)/codespell
	@$(BIN)/python -m pytest -q -p no:randomly tests/house tests/deploy

fix: .venv/ready
	@$(BIN)/ruff format -q .
	@$(BIN)/ruff check -q --fix .

bench-scheduling: .venv/ready
	@$(BIN)/python -m bench.scheduling $(ARGS)

coverage: tests/js/node_modules/ready
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile --cov --cov-report=term $(ARGS)

.conformance/ready: scripts/conformance.sh tests/conformance/requirements.txt tests/conformance/constraints.txt
	@scripts/conformance.sh

# In order and in one process: the servers are shared, and slow on a CPU.
conformance: .venv/ready .conformance/ready
	@TURNOUT_SGLANG=.conformance/venv/bin/python $(BIN)/python -m pytest -q -p no:randomly --timeout=1800 tests/conformance $(ARGS)
