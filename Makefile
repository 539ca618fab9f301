# Short names for the commands of every day. CMakePresets.json holds the real settings.
#
#   make build    install what is missing, build library, command and examples
#   make test     the same and the tests, and run them
#   make test-data    models and cases for the tests that need some, out of what npm has: test_data/
#   make test-long    those with a smaller form in `make test`, whole: networks trained on stored
#                     pictures, every value of every format, every drawn picture
#   make demo     read text from pictures with the example application
#   make format   format the sources        make tidy    run clang-tidy over all of them
#   make check-models   every stored model on its cases: one row per model
#   make check-fused    integer layers against ONNX Runtime's fused operators
#   make check-derived  derived software in every runtime: 10 million values, all equal
#   make check-sensitivity   how far ONNX Runtime's own result moves with its inputs' last bits
#   make bench    run the benchmarks        make docs    write the generated pages again
#   make package  Debian packages and a Python wheel: build/release/packages
#   make docs-api the reference of the public headers: build/api/html/index.html
#   make roofline the zoo's networks and the stored models against their roofline
#   make sanitize build with the address and undefined-behaviour sanitizers, run all unit tests
#   make fuzz     build and run the fuzz targets, FUZZ_SECONDS=10 each (docs/fuzzing.md)
#   make clean    remove build/

BUILD := build/release
JOBS ?= $(shell nproc)
# One more: some tests wait for other processes most of their time.
TEST_JOBS ?= $(shell expr $(JOBS) + 1)

.PHONY: all packages configure build build-all test test-data test-long check-models check-fused check-derived check-sensitivity demo format check tidy bench roofline
.PHONY: docs docs-api package sanitize fuzz clean

all: build

packages:
	scripts/install_packages.sh build

# The folder of the tests' models and cases, where it is not test_data/ (docs/models.md).
TEST_DATA ?=

configure: packages
	cmake --preset release $(if $(TEST_DATA),-D TESSERA_TEST_DATA="$(abspath $(TEST_DATA))")

build: configure
	cmake --build $(BUILD) --parallel $(JOBS) --target tessera_product

build-all: configure
	cmake --build $(BUILD) --parallel $(JOBS)

# Packages first: what the build finds of them it is configured for.
test:
	scripts/install_packages.sh derive browser package shells cluster load
	$(MAKE) build-all
	ctest --test-dir $(BUILD) --output-on-failure --parallel $(TEST_JOBS) --no-tests=error \
	  --timeout 900 --label-exclude long --output-junit test_results.xml

test-data:
	scripts/install_packages.sh build
	/usr/bin/python3 -B tests/data/make_test_data.py test_data

test-long:
	scripts/install_packages.sh derive browser package shells cluster load
	$(MAKE) build-all
	ctest --test-dir $(BUILD) --output-on-failure --label-regex long --no-tests=error

MODELS ?= $(shell sed -n "s/^TESSERA_TEST_DATA:[A-Z]*=//p" $(BUILD)/CMakeCache.txt 2>/dev/null)

check-models: build-all
	$(BUILD)/tests/models/check_models $(MODELS) tests/models/explained.txt --sim-mmacs 3

check-fused: build-all
	tests/models/run_compare_fused.sh $(BUILD) $(MODELS)

check-derived: build-all
	scripts/install_packages.sh derive
	tests/derived/run_check_derived.sh $(BUILD) $(MODELS)

MODEL ?= moonshine_tiny_encoder_q8
check-sensitivity: configure
	node tests/models/sensitivity.cjs $$(scripts/fetch_onnxruntime.sh) $(MODELS) $(MODEL)

package: build
	scripts/install_packages.sh package
	scripts/make_packages.sh $(BUILD)

demo: build
	scripts/demo.sh

format:
	scripts/format.sh --write

check:
	scripts/format.sh --check
	scripts/check_rules.py
	scripts/api_reference.py

tidy: build-all
	scripts/tidy.sh --all

bench: build
	scripts/bench.sh $(BUILD)

roofline: build
	$(BUILD)/src/tools/tessera bench --suite roofline
	for folder in "$(MODELS)" "$(MODELS)/more"; do \
	  if [ -d "$$folder/models" ]; then \
	    $(BUILD)/src/tools/tessera bench --suite roofline --models "$$folder" || exit 1; \
	  else echo "left out: there is no folder '$$folder/models' (docs/models.md)"; fi; \
	done

docs: build
	cmake --build $(BUILD) --target tessera_architecture_file_doc
	$(BUILD)/src/arch/tessera_architecture_file_doc > docs/formats/architecture_file.md

docs-api:
	scripts/install_packages.sh check
	scripts/api_reference.py

FUZZ_SECONDS ?= 10
sanitize:
	scripts/install_packages.sh build fuzz
	cmake --preset fuzz $(if $(TEST_DATA),-D TESSERA_TEST_DATA="$(abspath $(TEST_DATA))")
	cmake --build build/fuzz --parallel $(JOBS) --target tessera_unit_tests tessera_fuzz_programs
	ctest --test-dir build/fuzz --label-regex unit --label-exclude slow --output-on-failure \
	  --timeout 600 --parallel $(TEST_JOBS) --no-tests=error

fuzz:
	scripts/install_packages.sh build fuzz
	cmake --preset fuzz
	cmake --build --preset fuzz --parallel $(JOBS) --target tessera_fuzz_programs
	scripts/fuzz.py $(FUZZ_SECONDS)

clean:
	rm -rf build
