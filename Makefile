# Two commands: `make reproduce` and `make test`. Both set up all they need in .venv; running them again is quick.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
STORE ?= stairwise-store
REPORT ?= report
SEED ?= 1
AGAIN := --reruns 1 -rR # a test that fails is tried once more and listed: those of processes, browsers and clocks depend on the machine
unexport PYTHONDONTWRITEBYTECODE # tests start hundreds of processes, which would all read the sources again

.PHONY: reproduce reproduce-all test quick test-slow fuzz kills lint style types format bench docs clean

reproduce: $(VENV)/.core
	$(BIN)/stairwise reproduce --store $(STORE) --out $(REPORT)

reproduce-all: $(VENV)/.core
	$(BIN)/stairwise reproduce --all --store $(STORE) --out $(REPORT)

test: style
	@$(MAKE) --no-print-directory -j 2 types quick # beside one another: the type check has one core busy

quick: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile $(AGAIN)

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m "slow and not quiet" -n 2 --dist loadfile $(AGAIN) tests
	$(BIN)/python -m pytest -m quiet $(AGAIN) tests/slow

fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz 10000 $(SEED)

kills: $(VENV)/.dev
	$(BIN)/python -m tests.kills 100 $(SEED)

lint: style types

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python docs/docs_site/prose.py

types: $(VENV)/.dev
	@if $(BIN)/pyright --version >/dev/null 2>&1; then $(BIN)/pyright; else echo "pyright could not be set up: type check skipped"; fi

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	$(BIN)/stairwise bench

docs: $(VENV)/.docs
	$(BIN)/python docs/docs_site/write.py .cache/docs
	$(BIN)/python -m sphinx -W --keep-going -q -c docs -A report=1 -d .cache/doctrees .cache/docs site
	$(BIN)/stairwise report --published --out site/report --docs ../index.html
	@echo "site/index.html is the documentation"

clean:
	rm -rf $(VENV) $(REPORT) site

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11: make PYTHON=python3.11 ..."; exit 1; }
	@echo "setting up $(VENV) (a minute or two, once)"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e .
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	$(PIP) -e ".[docs]"
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) -e ".[dev]"
	$(PIP) torch==2.13.0 transformers tokenizers || echo "no PyTorch to be had: tests of language models will be skipped"
	@touch $@
