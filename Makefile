# The one task runner. Every target that needs Python sets up .venv by itself; nothing outside this folder is changed.
#
#   make demo     install, record a small MLP on this machine and explain it, then a trace recorded on an H200
#   make test     install the development tools, then lint, types and all tests
#
# RECORD=no leaves out recording, and with it torch. PYTHON chooses the interpreter of a new .venv, TESTS what `make unit` runs: make unit TESTS="tests/loading -k gzip"

PYTHON ?= python3
TESTS  ?= -n 2
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints-dev.txt
CODE   := src tests benchmarks scripts examples ladder
TORCH  := $(shell sed -n 's/^torch==//p' constraints-dev.txt)
DEMO   := examples/gpt_train_sins.json.gz

.DEFAULT_GOAL := help
.PHONY: help demo test lint types unit format docs bench install install-dev clean

help: ## what there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: $(VENV)/.installed ## install, record a small MLP on this machine and explain it, then a training step recorded on an H200
ifneq ($(RECORD),no)
	@$(BIN)/python -c 'import torch' 2>/dev/null || { echo "Installing torch $(TORCH) (RECORD=no does without) ..."; $(PIP) 'torch==$(TORCH)'; } \
	  || echo "No torch $(TORCH) for this Python: nothing is recorded here." >&2
	@if $(BIN)/python -c 'import torch' 2>/dev/null; then \
	  $(BIN)/lanewise run 03_simple_mlp --force --out .demo && $(BIN)/lanewise explain .demo/03_simple_mlp/*.json.gz; fi
	@echo
endif
	$(BIN)/lanewise explain $(DEMO)

test: lint types unit ## everything that a change has to pass

lint: $(VENV)/.installed-dev ## ruff: rules and formatting
	$(BIN)/ruff check $(wildcard $(CODE))
	$(BIN)/ruff format --check --quiet $(wildcard $(CODE))

types: $(VENV)/.installed-dev ## mypy, strict
	$(BIN)/mypy

unit: $(VENV)/.installed-dev ## the tests
	$(BIN)/python -m pytest $(TESTS)

format: $(VENV)/.installed-dev ## put the code into ruff's form
	$(BIN)/ruff check --fix $(wildcard $(CODE))
	$(BIN)/ruff format $(wildcard $(CODE))

docs: $(VENV)/.installed ## write again what is generated in docs/ and the READMEs
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/rule_pages.py
	$(BIN)/python scripts/reports.py
	$(BIN)/python scripts/excerpts.py

bench: $(VENV)/.installed ## load times beside other programs (some minutes, 3 GB of disk)
	$(BIN)/python benchmarks/load.py --write

install: $(VENV)/.installed ## lanewise in .venv, from this folder
install-dev: $(VENV)/.installed-dev ## the same with the development tools

clean: ## remove .venv and everything that is generated outside git
	rm -rf $(VENV) .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "lanewise needs Python 3.10 or later; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints-dev.txt
	@echo "Installing lanewise into $(VENV) ..."
	@$(PIP) -e .
	@$(BIN)/python -m compileall -q src/lanewise
	@touch $@

# torch comes apart: only its CPU build is wanted (the other one brings gigabytes), and where there is none for this Python
# the tests that need torch are skipped.
$(VENV)/.installed-dev: $(BIN)/python pyproject.toml constraints-dev.txt
	@echo "Installing lanewise and its development tools into $(VENV) ..."
	@$(PIP) -e '.[dev]'
	@$(PIP) 'torch==$(TORCH)' || echo "No torch $(TORCH) for this Python: the tests that need torch are skipped." >&2
	@if $(BIN)/python -c 'import torch' 2>/dev/null; then $(PIP) -e '.[frameworks]' \
	  || echo "The training frameworks cannot be installed: their tests are skipped." >&2; fi
	@touch $@ $(VENV)/.installed
