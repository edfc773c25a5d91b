"""The keys that a cell asks of a document, and the requests that bring the missing ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from evalrun.tasks.prompt import Asked, options_of
from evalrun.types import Cell, Doc, Generate, Key, Kind, Loglikelihood, Request, Rolling


def keys_of(cell: Cell, doc: Doc) -> tuple[Key, ...]:
    """Every key that the cell asks of one document, kind by kind: n generations, one per choice,
    one whole text.
    """
    sizes = {Kind.GENERATE: cell.n, Kind.ROLLING: 1}
    return tuple(
        (doc.id, Kind(kind).value, i, 0)
        for kind in cell.kinds
        for i in range(sizes.get(Kind(kind)) or len(options_of(doc)))
    )


def requests(
    docs: Sequence[Doc],
    prompts: Mapping[str, Asked],
    cell: Cell,
    missing_keys: Iterable[Key],
    seed_of: Callable[[str], int],
    is_single_token: bool = False,
) -> Iterator[Request]:
    """The requests that bring the missing keys, document by document in the order of `docs`.

    Per document: one generation with all its missing indices, one log-likelihood per missing
    choice, the same without context, the whole text.

    Args:
        prompts: document id -> what is sent.
        seed_of: document id -> base seed; sample i is drawn with it + i.
        is_single_token: every choice must be one token.

    ValueError: a missing key that belongs to no document or to nothing that was rendered.
    """
    missing: dict[str, dict[str, set[int]]] = {}
    for doc_id, kind, index, turn in missing_keys:
        if turn != 0 or (doc_id in prompts and not _is_rendered(prompts[doc_id], kind, index)):
            raise ValueError(f"{(doc_id, kind, index, turn)} is not a key of task {cell.name}")
        missing.setdefault(doc_id, {}).setdefault(kind, set()).add(index)
    strangers = missing.keys() - {doc.id for doc in docs}
    if strangers:
        raise ValueError(f"missing keys of unknown documents: {sorted(strangers)[:5]}")
    return (
        request
        for doc in docs
        if doc.id in missing
        for request in _requests(
            doc.id, prompts[doc.id], missing[doc.id], cell, seed_of(doc.id), is_single_token
        )
    )


def _is_rendered(prompt: Asked, kind: str, index: int) -> bool:
    match kind:
        case Kind.GENERATE.value:
            return bool(prompt.messages) and index >= 0
        case Kind.LOGLIKELIHOOD.value | Kind.UNCONDITIONED.value:
            return 0 <= index < len(prompt.continuations)
        case Kind.ROLLING.value:
            return prompt.text is not None and index == 0
    return False


def _requests(
    doc_id: str,
    prompt: Asked,
    missing: Mapping[str, set[int]],
    cell: Cell,
    seed: int,
    is_single_token: bool,
) -> Iterator[Request]:
    indices = {kind: tuple(sorted(missing.get(kind.value, ()))) for kind in Kind}
    if indices[Kind.GENERATE]:
        yield Generate(doc_id, prompt.messages, indices[Kind.GENERATE], cell.sampling, seed)
    for i in indices[Kind.LOGLIKELIHOOD]:
        yield Loglikelihood(
            doc_id, i, prompt.contexts[i], prompt.continuations[i], True, is_single_token
        )
    for i in indices[Kind.UNCONDITIONED]:
        yield Loglikelihood(
            doc_id, i, prompt.unconditioned, prompt.continuations[i], False, is_single_token
        )
    if indices[Kind.ROLLING] and prompt.text is not None:
        yield Rolling(doc_id, prompt.text)
