# The commands of the project. Each sets up what it needs (tools/setup.sh) and then runs; the second time it starts at once.
#   make tour    the tour notebook through the real kernel, printed as text
#   make lab     JupyterLab on the tour
#   make test    all tests; the last line says how many passed
#   make bench   benchmarks as JSON lines
#   make conformance SUITE=functions|models|fuzz|op_db|cpython|numpy|torch_programs|numpy_programs
# PYTHON is the CPython the .venv is made from, BUILD the build folder, ARGS is handed on.
PYTHON ?= python3
VENV ?= .venv
BUILD ?= build/release
SUITE ?= functions
ARGS ?=
export PYTHON VENV BUILD

run := $(VENV)/bin/python
SHELL := /bin/bash

.PHONY: help tour lab test bench conformance setup
help:
	@sed -n 's/^#   //p' Makefile

setup:
	@tools/setup.sh product

tour:
	@tools/setup.sh product
	@$(run) tools/run_tour.py $(ARGS)

lab:
	@tools/setup.sh product
	@JUPYTER_PREFER_ENV_PATH=1 $(run) -m jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/tour.ipynb $(ARGS)

test:
	@tools/setup.sh tests
	@$(run) tools/run_tests.py --build $(BUILD) $(ARGS)

bench:
	@tools/setup.sh product
	@$(run) benchmarks/bench.py $(ARGS)

conformance:
	@tools/setup.sh conformance
	@$(run) tests/conformance/run.py --suite $(SUITE) $(ARGS)
