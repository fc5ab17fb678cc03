# Everything is set up by the targets themselves: Python 3.11 or newer and make are enough.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

# Hundreds of worker processes start in the tests; without bytecode each would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

# One process for each core; a file stays in one of them. SPREAD= runs all in one, as --pdb needs it.
SPREAD ?= -n auto --maxprocesses 4 --dist loadfile
# Tests of workers wait for these half of their time: one process more than there are cores.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
WAITING = $(if $(SPREAD),$(SPREAD) -n $(shell expr $(CORES) + 1))

# ARGS may choose tests of one half alone: pytest ends with 5 where none is chosen.
OR_NONE = || [ $$? -eq 5 ]

# Further words for pytest, the demo or the benchmarks: make test ARGS="-k claim -x"
ARGS ?=

.PHONY: help demo test test-fast test-all test-services lint docs docs-pictures dist release-check bench chaos clean

help:
	@echo "make demo           a payment platform and an upload of registrations under crashes and duplicates, on its own servers"
	@echo "                    (KEEP=1 leaves it running; ACT=payments or ACT=registrations is one of the two)"
	@echo "make test           the test suite, on its own PostgreSQL and Valkey"
	@echo "make test-fast      units, the command, HTTP, eager tasks, the example"
	@echo "make test-all       lint, the suite with its slow tests, and the fast tests on every Python, Django, Celery and redis-py found"
	@echo "make test-services  the tests that need MariaDB (or MySQL), RabbitMQ, PgBouncer, another PostgreSQL, libraries that stamp calls or readers of deploy/, where found"
	@echo "make lint           ruff, mypy, import-linter, missing migrations"
	@echo "make docs           the documentation as HTML; a broken link fails"
	@echo "make docs-pictures  the pictures of the documentation once more, by Chromium"
	@echo "make dist           sdist and wheel, and the tutorial with that wheel in an empty environment"
	@echo "make release-check  the same on each supported Python found, twine, a bill of materials and the licences in dist/"
	@echo "make bench          the benchmarks"
	@echo "make chaos          10,000 calls under 220 faults, and what became of each (ARGS=\"--seed 2 --minutes 60\")"
	@echo "make clean          remove what the other targets made"
	@echo 'ARGS="..." is passed on to pytest, the demo and the benchmarks; PYTHON=python3.13 chooses the interpreter.'

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(INSTALLED)
	$(BIN)/python -m example_project.demo $(if $(KEEP),--keep) $(if $(ACT),--act $(ACT)) $(ARGS)

test: $(INSTALLED)
	$(BIN)/python -m pytest -m "not process and not slow" $(SPREAD) $(ARGS) $(OR_NONE)
	$(BIN)/python -m pytest -m "process and not slow" $(WAITING) $(ARGS) $(OR_NONE)

test-fast: $(INSTALLED)
	$(BIN)/python -m pytest -m "not process and not slow and not thorough" $(SPREAD) $(ARGS)

test-all: lint
	$(BIN)/python -m pytest $(SPREAD) $(ARGS)
	$(BIN)/python -m tests.project.matrix fast

test-services: $(INSTALLED)
	$(BIN)/python -m tests.services $(SPREAD) $(ARGS)

# Types take one core for a minute, and the environments of other Djangos wait for downloads.
lint: $(INSTALLED)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	@$(MAKE) --no-print-directory --jobs 2 lint-types lint-migrations lint-rooms

.PHONY: lint-types lint-rooms lint-migrations
lint-types: $(INSTALLED)
	$(BIN)/python -m mypy

lint-rooms: $(INSTALLED)
	$(BIN)/lint-imports

lint-migrations: $(INSTALLED)
	$(BIN)/python -m tests.project.matrix migrations

# Warnings are errors, and so is a page that would fetch anything from another host.
docs: $(INSTALLED)
	@$(BIN)/python -c 'import myst_parser' 2>/dev/null \
		|| $(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[docs]'
	rm -rf build/docs
	$(BIN)/python -m sphinx -nqW --keep-going -c docs . build/docs
	@! grep -rnE '(src|<link[^>]* href)="(https?:)?//' build/docs --include='*.html'
	@echo "The documentation is in build/docs/docs/index.html"

docs-pictures: $(INSTALLED)
	DOCS_PICTURES=docs/pictures $(BIN)/python -m pytest tests/admin/browser/test_drill.py -q -n 0

dist: $(INSTALLED)
	$(BIN)/python -m tests.project.wheel

# Its tools are installed beside the main environment, and thrown away.
release-check: $(INSTALLED)
	$(BIN)/python -m tests.project.wheel release

# All parts but two compare with peers; those that cannot be installed are left out, and it says so.
bench: $(INSTALLED)
ifeq ($(filter admin claims hosts profile,$(ARGS)),)
	-@$(BIN)/python -c 'import celery_once, celery_singleton' 2>/dev/null \
		|| $(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[bench]'
endif
	$(BIN)/python -m benchmarks $(ARGS)

chaos: $(INSTALLED)
	$(BIN)/python -m benchmarks chaos $(ARGS)

clean:
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
