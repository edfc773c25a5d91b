"""What the local engines (hf, vllm) share: the tokenizer, and digests of tokenizer and weights."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evalrun.errors import Fault, visible
from evalrun.types import ModelPlan, Pairs

MANIFEST = "evalrun.json"
WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")
LOAD_ERRORS = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    ImportError,
    RuntimeError,
    AssertionError,
)
"""What the loaders of transformers and vLLM raise for models that do not exist or do not fit
them.
"""

WHOLE_BYTES = 1_000_000_000  # folders with fewer bytes of weights are hashed whole


def is_debug() -> bool:
    """True where the `evalrun` logger lets debug messages through (--debug): libraries may then
    speak too.
    """
    return logging.getLogger("evalrun").isEnabledFor(logging.DEBUG)


def quiet() -> None:
    """Silence the messages and progress bars of transformers and the hub, unless debugging."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if is_debug():
        return
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


@contextmanager
def muted_stderr() -> Iterator[None]:
    """Send what libraries write to sys.stderr nowhere, unless debugging."""
    if is_debug():
        yield
        return
    before = sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stderr = nowhere
        try:
            yield
        finally:
            sys.stderr = before


WAY_OUT = (
    "Give a local folder with config.json, weights and tokenizer, or a name on the Hugging Face "
    "hub (needs a network, or a filled cache when HF_HUB_OFFLINE=1); model=smollm2 needs neither."
)


def cannot_load(model: ModelPlan, what: str, error: BaseException) -> Fault:
    """The Fault for a model or tokenizer that the library refused: its path, what was said, the
    way out.
    """
    where = f"model.path={model.path}" + (
        f" model.revision={model.revision}" if model.revision else ""
    )
    said = " ".join(visible(str(error)).split())[:400] or type(error).__name__
    return Fault(f"The {what} of model {model.name} ({where}) cannot be loaded: {said} {WAY_OUT}")


def load_tokenizer(model: ModelPlan, path: str) -> Any:
    """The tokenizer of `model.tokenizer`, else of the model itself.

    Fault where it does not load.
    """
    quiet()
    from transformers import AutoTokenizer

    is_own = model.tokenizer is None
    try:
        return AutoTokenizer.from_pretrained(
            path if is_own else model.tokenizer,
            revision=model.revision if is_own else None,
            trust_remote_code=model.trust_remote_code,
        )
    except LOAD_ERRORS as error:
        raise cannot_load(model, "tokenizer", error) from error


def plain(pairs: Pairs) -> dict[str, Any]:
    """Pairs as a dict; nested pairs as dicts, other tuples as lists: what engines take as
    arguments.
    """

    def value(node: Any) -> Any:
        if not isinstance(node, tuple):
            return node
        is_pairs = bool(node) and all(
            isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in node
        )
        return (
            {key: value(item) for key, item in node} if is_pairs else [value(item) for item in node]
        )

    return {key: value(item) for key, item in pairs}


def context_tokens(model: ModelPlan, config: Any) -> int | None:
    """How many tokens prompt and answer may have together: model.max_model_len, else what the
    configuration says.
    """
    if model.max_model_len is not None:
        return model.max_model_len
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    return int(limit) if limit else None


def tokenizer_digest(tokenizer: Any) -> str:
    """16 hex digits over the whole tokenizer: its serialized form, else vocabulary and special
    tokens.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        data = json.loads(backend.to_str())
        data.update(padding=None, truncation=None)  # a state of use, not of the tokenizer
    else:
        data = {"vocab": tokenizer.get_vocab(), "special": tokenizer.special_tokens_map}
    return text_digest(json.dumps(data, sort_keys=True, default=str))


def text_digest(text: str) -> str:
    """First 16 hex digits of the SHA-256 of `text`."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def file_digest(file: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    with open(file, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def revision(path: str, config: Any) -> str:
    """Which weights these are: the hub's commit, or a digest of the local folder.

    Embedded model: digest of its GGUF file. Folders below 1 GB of weights: digest of every weight
    file. Above: of names, sizes and (safetensors) headers, which name each tensor with its type,
    shape and place.
    """
    if commit := getattr(config, "_commit_hash", None):
        return str(commit)
    folder = Path(path)
    if manifest := read_manifest(folder):
        return f"gguf:{str(manifest.get('source_sha256'))[:16]}"
    files = sorted({file for pattern in WEIGHTS for file in folder.glob(pattern)})
    is_small = sum(file.stat().st_size for file in files) < WHOLE_BYTES
    parts = [
        f"{f.name} {f.stat().st_size} {file_digest(f) if is_small else _header(f)}" for f in files
    ]
    return f"{'sha256' if is_small else 'headers'}:{text_digest(chr(0).join(parts))}"


def _header(file: Path) -> str:
    """Digest of a safetensors header (8 bytes length, then JSON); empty for other files."""
    if file.suffix != ".safetensors":
        return ""
    with open(file, "rb") as handle:
        size = int.from_bytes(handle.read(8), "little")
        return hashlib.sha256(handle.read(min(size, 100_000_000))).hexdigest()


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What the conversion of the embedded model wrote about itself; None where there is no such
    file.
    """
    try:
        data = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None
