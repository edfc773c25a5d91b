#!/bin/sh
# Puts the CPU build of torch into a venv: from a wheel that pip finds on this machine, else from PyTorch's CPU index.
# Usage: install_torch.sh VENV_PYTHON
set -eu
python=$1
if "$python" -c 'import torch' 2>/dev/null; then
    exit 0
fi
if "$python" -m pip install -q --no-index --no-deps 'torch==2.13.0' 2>/dev/null; then
    exit 0
fi
if [ "$(uname -s)" = Darwin ]; then
    exec "$python" -m pip install -q torch
fi
exec "$python" -m pip install -q torch --index-url https://download.pytorch.org/whl/cpu
