"""A real vLLM server with SmolLM2, started once for all tests that speak to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from vllm_serving import vllm_server

from evalrun.backends.local import embedded
from evalrun.backends.vllm.backend import VllmBackend
from evalrun.types import ModelPlan


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server's URL."""
    pytest.importorskip("vllm")
    folder = embedded.resolve(embedded.PATH)
    with vllm_server(folder, tmp_path_factory.mktemp("server") / "server.log") as server:
        yield server


@pytest.fixture(scope="session")
def engine() -> Iterator[VllmBackend]:
    """The offline engine, started once; the last test of test_vllm_offline.py ends it."""
    backend = VllmBackend(ModelPlan("smollm2", "vllm", path=embedded.PATH, max_model_len=2048))
    backend.start()
    yield backend
    backend.close()
