# Two commands: `make run` measures this machine, `make test` checks this checkout. Both set everything up themselves.
PYTHON ?= python3
BIN := .venv/bin
.PHONY: setup run test lint types unit system reference lock clean

setup: .venv/ready

.venv/ready: locks/bootstrap.txt locks/dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r locks/bootstrap.txt
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes locks/dev.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

run: setup
	$(BIN)/trainmark run quick
	$(BIN)/trainmark report --output report.html
	@echo "the report is in report.html: open it in a browser"

test: setup system lint types unit

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

# Two processes with one thread each are faster than one with two; idle threads must not spin beside the other's.
# JAX has threads, and a process with threads must not fork as other tests do: its tests (marked `jax`) have processes of
# their own. Tests that depend on timing (marked `serial`) run alone afterwards.
unit: export OMP_NUM_THREADS = 1
unit: export OMP_WAIT_POLICY = passive
unit:
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not serial and not jax"
	$(BIN)/python -m pytest -n 2 --dist worksteal -m jax tests/unit/worker tests/unit/workloads tests/unit/weights
	$(BIN)/python -m pytest -m serial

# A C++ compiler for torch.compile, a browser for the report page and one real data set, where a Debian machine lets us
# install them; tests that need them skip with the reason elsewhere.
system:
	@sh scripts/install-system-packages

reference: setup
	$(BIN)/python scripts/make-reference

# Hashes without the address of any registry; run after a change of dependencies in pyproject.toml.
lock:
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		pyproject.toml --extra torch --extra paddle --extra jax --group dev --output-file locks/dev.txt

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache report.html
