"""Saved predictions as a library that finds a document by its id or its query.

Read from .jsonl or Arrow files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from evalrun.backends.replay.saved_rows import KINDS, STATUSES, Entry, jsonl_entries, saved_reply
from evalrun.errors import Fault, nearest, visible
from evalrun.types import Kind, Status


class Library:
    """Entries by id and by query. digest: SHA-256 of the files they came from."""

    def __init__(self, path: str, digest: str, entries: Iterable[Entry]) -> None:
        self.path = path
        self.digest = digest
        self._by_id: dict[str, list[Entry]] = {}
        self._by_query: dict[str, list[Entry]] = {}
        for entry in entries:
            if entry.doc_id is not None:
                self._by_id.setdefault(entry.doc_id, []).append(entry)
            if entry.query:
                self._by_query.setdefault(entry.query, []).append(entry)
        self._lengths = sorted({len(query) for query in self._by_query}, reverse=True)

    def find(self, doc_id: str, message: str) -> Entry | str:
        """The entry of a document, else why there is none.

        An id in several files is settled by the query.
        """
        of_id = self._by_id.get(doc_id, [])
        if len(of_id) == 1:
            return of_id[0]
        of_query = self._by_query.get(self._query_in(message) or "", [])
        found = (
            [entry for entry in of_query if any(entry is other for other in of_id)]
            if of_id
            else of_query
        )
        if len(found) == 1:
            return found[0]
        if not of_id and not found:
            return (
                f"{self.path} holds no reply to document {doc_id!r}, neither by its id nor by its "
                "query"
            )
        where = ", ".join(sorted({entry.source for entry in of_id or found}))
        return (
            f"{self.path} holds several replies to document {doc_id!r} ({where}): name one file by "
            "model.path"
        )

    def _query_in(self, message: str) -> str | None:
        """The saved query that `message` is or ends with (the longest); else the one it contains
        last.

        A query must stand apart: `5+5?` is not the end of `15+5?`. Where queries are parts of
        others, save doc_ids.
        """
        text = message.rstrip()
        for candidate in (message, text):
            for length in self._lengths:
                start = len(candidate) - length
                if (
                    start >= 0
                    and candidate[start:] in self._by_query
                    and _stands_apart(candidate, start, len(candidate))
                ):
                    return candidate[start:]
        ends = (
            (at + len(query), len(query), query)
            for query in self._by_query
            if (at := text.rfind(query)) >= 0 and _stands_apart(text, at, at + len(query))
        )
        return max(ends, default=(0, 0, None))[2]


def _stands_apart(text: str, start: int, end: int) -> bool:
    """True where neither a letter nor a digit touches it from outside."""
    return not (
        (start > 0 and text[start - 1].isalnum() and text[start].isalnum())
        or (end < len(text) and text[end].isalnum() and text[end - 1].isalnum())
    )


def load(path: str) -> Library:
    """The library behind a path. Fault where nothing is there or a line is malformed."""
    place = Path(path)
    if not place.exists():
        near = (
            nearest(place.name, [p.name for p in place.parent.iterdir()])
            if place.parent.is_dir()
            else None
        )
        guess = f" Did you mean {visible(str(place.parent / near))!r}?" if near else ""
        raise Fault(
            f"There are no saved predictions at model.path={visible(path)!r}.{guess} Allowed: a "
            "run folder, a predictions file (.arrow) or a .jsonl file."
        )
    if place.is_dir():
        files = _prediction_files(place)
        if not files:
            raise Fault(
                f"The folder model.path={visible(path)!r} holds no predictions "
                "(predictions/MODEL/TASK.arrow)."
            )
        entries = [entry for group in _by_task(files).values() for entry in _arrow_entries(group)]
    elif place.suffix in (".arrow", ".arrows"):
        files = [place]
        entries = list(_arrow_entries(files))
    elif place.suffix == ".jsonl":
        files = [place]
        entries = list(jsonl_entries(place))
    else:
        raise Fault(
            f"model.path={visible(path)!r} is no saved prediction: allowed are a run folder, "
            ".arrow, .jsonl."
        )
    return Library(path, _digest(place, files), entries)


def _digest(root: Path, files: list[Path]) -> str:
    """SHA-256 of the file; of several, of their sorted names with their digests."""
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    if root.is_file():
        return digests[0]
    named = (
        f"{file.relative_to(root).as_posix()} {digest}\n"
        for file, digest in zip(files, digests, strict=True)
    )
    return hashlib.sha256("".join(named).encode()).hexdigest()


def _prediction_files(folder: Path) -> list[Path]:
    """The predictions of a run or of a sweep's runs; in a folder that is neither, every Arrow
    file.
    """
    found = [file for suffix in ("*.arrow", "*.arrows") for file in folder.rglob(suffix)]
    found = [file for file in found if not file.name.endswith(".docs.arrow")]
    of_runs = [file for file in found if "predictions" in file.relative_to(folder).parts]
    return sorted(of_runs or found)


def _by_task(files: list[Path]) -> dict[str, list[Path]]:
    """TASK.arrow with its shards TASK.0.arrows, TASK.1.arrows: the final file first, then shards
    by number.
    """
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(_task_path(file), []).append(file)
    for group in groups.values():
        group.sort(key=lambda file: (file.suffix == ".arrows", _shard_number(file)))
    return groups


def _task_path(file: Path) -> str:
    stem = file.stem
    if file.suffix == ".arrows" and stem.rpartition(".")[2].isdigit():
        stem = stem.rpartition(".")[0]
    return str(file.with_name(stem))


def _shard_number(file: Path) -> int:
    last = file.stem.rpartition(".")[2]
    return int(last) if last.isdigit() else -1


def _arrow_entries(files: list[Path]) -> Iterator[Entry]:
    """Entries of one task's files; the last row of a key wins.

    Queries come from the docs file beside them.
    """
    queries = _queries(Path(f"{_task_path(files[0])}.docs.arrow"))
    entries: dict[str, Entry] = {}
    for file in files:
        for row in _arrow_rows(file, ("doc_id", "index")):
            if row.get("status") not in STATUSES:
                raise Fault(
                    f"{visible(str(file))}: status {row['status']!r} is not one of "
                    f"{', '.join(Status)}."
                )
            kind = row.get("kind") or Kind.GENERATE.value
            if kind not in KINDS or row.get("turn") not in (0, None):
                continue
            doc_id = str(row["doc_id"])
            entry = entries.get(doc_id)
            if entry is None:
                entry = entries[doc_id] = Entry(file.name, doc_id, queries.get(doc_id))
            entry.replies[kind, int(row["index"])] = saved_reply(row)
    yield from entries.values()


def _queries(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    return {
        str(row["doc_id"]): row["query"]
        for row in _arrow_rows(file, ("doc_id", "query"))
        if row.get("query")
    }


def _arrow_rows(file: Path, needed: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow file or stream; a cut stream gives the batches before the cut."""
    import pyarrow as pa

    with pa.OSFile(str(file), "rb") as source:
        try:
            if file.suffix == ".arrow":
                reader = pa.ipc.open_file(source)
                batches: Iterable[Any] = (
                    reader.get_batch(i) for i in range(reader.num_record_batches)
                )
            else:
                batches = _until_cut(pa, source)
            for batch in batches:
                if not {*needed} <= set(batch.schema.names):
                    raise Fault(
                        f"{visible(str(file))} holds no predictions: no columns "
                        f"{' and '.join(needed)}."
                    )
                yield from batch.to_pylist()
        except pa.ArrowInvalid as fault:
            raise Fault(
                f"{visible(str(file))} cannot be read as Arrow: {visible(str(fault))}"
            ) from fault


def _until_cut(pa: Any, source: Any) -> Iterator[Any]:
    try:
        yield from pa.ipc.open_stream(source)
    except (pa.ArrowInvalid, OSError):
        return
