# make run    the quick benchmark on the seven real data sets: table on the screen, page under runs/quick/report
# make test   what every change has to pass, in about seven minutes on two cores
# make test-all  the same, and what takes longer: clusters, browsers, every combination of parameters
# make lint   ruff, mypy and the order of the layers (import-linter)
# make bench  how fast everything is, into results/speed
# make real DATA=FOLDER  the default on tables of real joins, against what people do first, into results/real
# make golden  whether plr still answers as benchmarks/golden/record says
# make docs   the documentation as a site under site/
# make coverage  the tests of make test, and which lines of plr they do not reach, into results/coverage
# make dist   wheel and sdist under dist/, checked, and tried in an environment that has nothing else
# Each makes .venv by itself; all it needs is Python 3.11 or later with pip.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test test-all lint docs coverage dist bench real golden learners theory clean

run: $(VENV)/.runs
	$(BIN)/plr benchmark --preset quick --out runs/quick
	$(BIN)/plr report runs/quick -o runs/quick/report

# Two processes for two cores, so one thread each; and what was imported once is compiled once.
test: export OMP_NUM_THREADS = 1
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-all: $(VENV)/.tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m ""

lint: $(VENV)/.tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

coverage: export OMP_NUM_THREADS = 1
coverage: $(VENV)/.tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup --cov --cov-report=
	mkdir -p results/coverage
	{ printf '# Coverage of the tests\n\nMeasured by `make coverage`, plr at revision %s.\n' "$$(git rev-parse HEAD)"; \
		printf 'Lines and branches; compiled kernels are not counted. What runs on a cluster, on a GPU or in a process of\n'; \
		printf 'its own is not seen here: `make test-all` runs most of it.\n\n'; \
		$(BIN)/python -m coverage report --format=markdown; } > results/coverage/coverage.md

dist: $(VENV)/bin/python
	rm -rf dist build
	$(PIP) build twine
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/bare
	build/bare/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cp recipe/try_installed.py build
	cd build && unset PYTHONPATH && bare/bin/plr --help > /dev/null && bare/bin/python try_installed.py

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/.tests
	for name in training paper boosting default scaling user; do \
		$(BIN)/python benchmarks/bench_$$name.py --out results/speed || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "Below the mark, or failed:$$failed" >&2; exit 1; }

learners: $(VENV)/.tests
	$(BIN)/python benchmarks/learners.py --out results/learners

theory: $(VENV)/.runs
	$(BIN)/python benchmarks/theory.py --out results/theory

clean:
	rm -rf $(VENV) build dist runs site .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runs: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[datasets,report]'
	touch $@

# PyTorch comes first and by exact version, so that nothing else pulls in another build of it.
$(VENV)/.tests: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) torch==2.13.0
	$(PIP) --editable '.[torch,ray,datasets,report,skops,dev]'
	touch $@ $(VENV)/.runs $(VENV)/.docs

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]'
	touch $@

.PHONY: identification uncertainty

identification: $(VENV)/.tests
	$(BIN)/python -m benchmarks.identification run --jobs 2
	$(BIN)/python -m benchmarks.identification tables

# With DATA=FOLDER on tables of real joins as well, with AGAINST=CHECKOUT times against another checkout.
UNCERTAINTY := $(if $(DATA),--data $(DATA)) $(if $(AGAINST),--against $(AGAINST))
uncertainty: $(VENV)/.tests
	$(BIN)/python -m benchmarks.uncertainty run --jobs 2 $(UNCERTAINTY)
	$(BIN)/python -m benchmarks.uncertainty tables $(UNCERTAINTY)

.PHONY: real

# DATA is a folder of NAME.rows.csv and NAME.pairs.csv, which are not part of this repository.
real: $(VENV)/.tests
	$(BIN)/python -m benchmarks.real run --jobs 2 --data $(DATA)

.PHONY: golden

golden: $(VENV)/.tests
	$(BIN)/python -m benchmarks.golden compare

.PHONY: scale

# About 40 minutes and 21 GiB of disk under runs/folder, which can be deleted afterwards.
scale: $(VENV)/.tests
	$(BIN)/python benchmarks/bench_folder.py --out results/scale
	$(BIN)/python benchmarks/bench_cluster.py --out results/scale --ray
	$(BIN)/python benchmarks/cluster_model.py --out results/scale
