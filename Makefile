# Everything from a fresh clone: each target first makes .venv with the newest supported Python on this machine.

PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
WORKERS ?= 2
# Each worker gets a share of files that lie together, whose tests share what they compute; who is done takes from others.
PARALLEL := -n $(WORKERS) --dist worksteal
PYTEST_OPTIONS ?=

# Python keeps what it compiles, whatever the user's environment says: tests start many processes. So pip compiles nothing:
# that takes 8 seconds, mostly for what nobody imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo docs test test-long test-cpus test-arm64 test-windows test-pythons test-314 test-314t test-installs test-machines check bench bench-gpu-static gpu gpu-bundle clean

demo: .venv/installed
	$(BIN)/python examples/demo.py

test: .venv/installed
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_OPTIONS)

test-long: .venv/installed
	$(BIN)/python -m pytest $(PARALLEL) -m long

test-cpus: .venv/installed
	tests/machines/cpus.sh $(PYTEST_OPTIONS)

test-arm64: .venv/installed
	tests/machines/arm64.sh $(PYTEST_OPTIONS)

test-windows: .venv/installed
	tests/machines/windows.sh $(PYTEST_OPTIONS)

test-pythons: .venv/installed
	tests/machines/pythons.sh $(PYTEST_OPTIONS)

test-314: .venv/installed
	VERSIONS=3.14 tests/machines/pythons.sh $(PYTEST_OPTIONS)

test-314t: .venv/installed
	VERSIONS=3.14t tests/machines/pythons.sh $(PYTEST_OPTIONS)

test-installs: .venv/installed
	$(BIN)/python tests/machines/installs.py 3.11 3.12 3.13 3.14 3.14t

test-machines: .venv/installed
	$(BIN)/python tests/machines/matrix.py

# In a fresh clone mypy takes half a minute of one processor: tests run beside it, and what it says comes last.
check: .venv/installed
	$(BIN)/ruff check
	@said=$$(mktemp); $(BIN)/mypy >$$said 2>&1 & types=$$!; \
		echo 'pytest, and mypy beside it'; $(BIN)/python -m pytest $(PARALLEL) -m "not slow and not spared" -x; tests=$$?; \
		wait $$types; types=$$?; cat $$said; rm $$said; exit $$((tests | types))

docs: .venv/docs
	$(BIN)/python docs/site/build.py

bench-gpu-static: .venv/installed
	$(BIN)/python bench/gpu_static.py

gpu: .venv/installed
	architecture=$$($(BIN)/python bench/gpu/driver.py) && \
		$(BIN)/python bench/gpu/bundle.py build/gpu --architectures $$architecture
	for part in right agrees fast; do $(BIN)/python build/gpu/parts.py $$part --out build/gpu/$$part.json; \
		test $$? -le 1 || exit 1; done
	$(BIN)/python bench/gpu/runtime.py build/gpu/right.json
	$(BIN)/python bench/gpu/torch_compiled.py build/gpu/right.json
	$(BIN)/python bench/gpu/faults.py build/gpu/agrees.json
	$(BIN)/python bench/gpu/rivals.py build/gpu/fast.json
	$(BIN)/python bench/gpu/page.py docs/hardware build/gpu/right.json build/gpu/agrees.json build/gpu/fast.json

gpu-bundle: .venv/installed
	$(BIN)/python bench/gpu/bundle.py build/gpu

bench: .venv/installed
	$(BIN)/python bench/run.py

.venv/installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "tilewright needs Python 3.11 or newer; found none (set PYTHON=...)" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[test]'
	@touch $@

.venv/docs: .venv/installed
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[docs]'
	@touch $@

clean:
	rm -rf build/docs .venv .venv-peers .venv-triton .pytest_cache .mypy_cache .ruff_cache .hypothesis
