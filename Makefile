# Two commands matter: `make demo` and `make test`; each does its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Seconds that the demo runs; 0 until Ctrl-C.
DURATION ?= 0
REFERENCE := reference_server/build
REFERENCE_SOURCES := reference_server/CMakeLists.txt $(wildcard proto/camera_ai/*.proto \
    reference_server/proto/*.proto reference_server/src/*.cpp reference_server/src/*.h reference_server/tests/*.cpp)
SOURCES := pyproject.toml setup.py $(wildcard proto/camera_ai/*.proto cython_ext/*.pyx cython_ext/*.pxd cython_ext/*.h cython_ext/*.hpp)

# Each target uses all processors by itself, and pip writes to one environment.
.NOTPARALLEL:
.PHONY: demo test soak check sanitize tsan asan ubsan arm64 reference bench contract clean

demo: $(VENV)/.demo-ready
	@$(BIN)/python tools/demo.py --duration $(DURATION)

test: $(VENV)/.test-ready $(REFERENCE)/.tested
	$(BIN)/python -m pytest -m "not soak" -n 2 --dist loadfile $(ARGS)

soak: $(VENV)/.test-ready $(REFERENCE)/.tested
	$(BIN)/python -m pytest -m soak --timeout 3600 -s $(ARGS)

check: $(VENV)/.test-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml $(addprefix cython_ext.,$(basename $(notdir $(wildcard cython_ext/*.pyx))))
	$(BIN)/lint-imports

sanitize: tsan asan ubsan

tsan asan ubsan: $(VENV)/.test-ready
	$(BIN)/python -m tests.native.sanitize $@ $(ARGS)

arm64: $(VENV)/.test-ready
	$(BIN)/python -m pytest -s tests/cross $(ARGS)

reference: $(REFERENCE)/.tested

bench: $(VENV)/.test-ready $(REFERENCE)/.tested
	$(BIN)/python -m bench $(ARGS)

# Once for each release: what its agents and servers speak is kept, and spoken by the tests for good.
contract: $(VENV)/.test-ready
	$(BIN)/python tools/keep_contract.py

clean:
	rm -rf $(VENV) $(REFERENCE) build dist demo-run *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -f cython_ext/*.c cython_ext/*.cpp cython_ext/*.so proto/camera_ai/*_pb2*

$(VENV)/bin/python:
	@sh tools/prerequisites.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-ready: $(SOURCES) | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[edge,server]'
	@touch $@

$(VENV)/.test-ready: $(SOURCES) tools/test-packages.sh
	@sh tools/test-packages.sh
	@$(MAKE) --no-print-directory $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[edge,server,dev]'
	@touch $@ $(VENV)/.demo-ready

$(REFERENCE)/.tested: $(REFERENCE_SOURCES) tools/test-packages.sh
	@sh tools/test-packages.sh
	@cmake -S reference_server -B $(REFERENCE) >/dev/null
	@cmake --build $(REFERENCE) --parallel $$(nproc)
	@cd $(REFERENCE) && ctest --output-on-failure
	@touch $@
