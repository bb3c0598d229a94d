# Everything from a bare checkout: each target makes what it needs.
PYTHON ?= python3
PORT ?= 8000
HOST ?= 127.0.0.1
MODELS ?= model_repo
DEVICE ?= cpu
WORKERS ?= 2
KIND := $(firstword $(subst :, ,$(DEVICE)))
ON := $(if $(filter cpu,$(KIND)),,--device $(DEVICE))
VENV := .venv$(if $(filter cuda,$(KIND)),-cuda)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: serve test conformance lint bench clean

serve: $(VENV)/.serve-$(KIND)  ## Serve MODELS on PORT; DEVICE=cuda runs them on an NVIDIA GPU.
	@$(BIN)/braid serve --host $(HOST) --port $(PORT) --models $(MODELS) --workers $(WORKERS) $(ON)

test: $(VENV)/.test .venv-clients/.ready lint  ## Lint, types and every test.
	$(BIN)/python -m pytest

conformance: $(VENV)/.test  ## Recorded vLLM exchanges replayed: passed, deliberately different, failed.
	$(BIN)/python -m pytest tests/conformance --differences

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench  ## Braid beside its peers, alternating in one run; QUICK=1 is shorter.
	$(BIN)/python -m tools.bench

clean:
	rm -rf .venv .venv-cuda .venv-clients build

$(VENV)/bin/python:
	@echo "Making $(VENV) …"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Braid needs Python 3.11 or newer; run make with PYTHON=python3.11")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.serve-cpu: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing what serving needs (about 20 s) …"
	@$(PIP) --constraint constraints.txt --editable '.[cpu]'
	@touch $@

$(VENV)/.serve-cuda: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing what serving on an NVIDIA GPU needs (ONNX Runtime and cupy for CUDA 13) …"
	@$(PIP) --constraint constraints.txt --editable '.[cuda]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing what the tests need, torch among it (about two minutes) …"
	@$(PIP) --constraint constraints.txt --editable '.[cpu,export,dev]'
	@touch $@ $(VENV)/.serve-cpu

.venv-clients/.ready: tests/clients/requirements.txt tests/clients/constraints.txt
	@echo "Installing other people's clients for the tests (about a minute) …"
	@$(PYTHON) -m venv .venv-clients
	@.venv-clients/bin/python -m pip install --quiet --disable-pip-version-check --constraint tests/clients/constraints.txt --requirement $<
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	@$(PIP) --constraint constraints.txt --editable '.[bench]'
	@touch $@
