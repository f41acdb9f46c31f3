# The few commands that people type. CMakePresets.json holds what they mean.
#
#   make            build the library and the command as shipped, into build/release
#   make demo       install what the build needs, build, and show what kvhold does
#   make test       build with tests, run the fast ones, check the rule table
#   make long       after make test: the slow tests (crash, fuzz), then the whole rule table
#   make bench      measure the shipped build, and a peer beside it where one can be installed;
#                   all figures in build/report/bench.json
#   make report     coverage build, all fast tests, build/report/index.html
#   make lint       clang-tidy and cppcheck; make format rewrites the C files in place
#   make install    into PREFIX (default /usr/local); DESTDIR is honoured
#   make setup      install from Debian whatever is missing for all of these
#   make clean      remove build/
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)

.PHONY: all demo test long bench report lint format install setup clean
.DEFAULT_GOAL := all

all:
	cmake --preset release
	cmake --build --preset release --parallel $(JOBS)

demo:
	tools/setup.sh build
	$(MAKE) all
	build/release/kvhold demo

test:
	tools/setup.sh build test
	tools/check.sh dev
	python3 reports/rules.py --results build/dev/results --fast

long:
	cmake --build --preset dev --parallel $(JOBS)
	cd build/dev && ctest --output-on-failure --no-tests=error -L '^(crash|fuzz)$$' \
		--output-junit $(CURDIR)/build/dev/results/ctest-long.xml
	python3 reports/rules.py --results build/dev/results

bench: all
	tests/bench/run.sh

report:
	tools/setup.sh build test
	tools/coverage.sh
	tools/report.sh

lint:
	tools/setup.sh build test lint
	tools/lint.sh

format:
	git ls-files --cached --others --exclude-standard '*.c' '*.h' | xargs -r clang-format -i

install: all
	cmake --install build/release --prefix $(PREFIX)

setup:
	tools/setup.sh

clean:
	rm -rf build
