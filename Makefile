# make          build everything          make test      build and run the tests
# make demo     run the examples          make sanitize  the tests with sanitizers
# make format   format the sources        make portable  executables to carry to another machine
#
# Each installs the packages it lacks (Debian 12). The work is CMake's: see CMakePresets.json.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
SOURCES = git ls-files '*.cpp' '*.h' '*.c'

.PHONY: build packages demo test sanitize portable format
.NOTPARALLEL:

build: build/release/build.ninja
	cmake --build --preset release -j $(JOBS)

packages:
	@cmake/debian_packages.sh

build/%/build.ninja: | packages
	cmake --preset $*

demo: build/release/build.ninja
	cmake --build --preset release -j $(JOBS) --target braze_command examples/all
	@cmake/demo.sh build/release/bin

test: build
	ctest --preset release -j $(JOBS)

sanitize: build/dev/build.ninja
	cmake --build --preset dev -j $(JOBS)
	ctest --preset dev -j $(JOBS)

portable: build/portable/build.ninja
	cmake --build --preset portable -j $(JOBS) --target braze_command braze_c braze-tests

format:
	$(SOURCES) | xargs clang-format -i
