"""Rows of a dataset: local files read by us with types untouched, hub data through `datasets`.

path of a DatasetPlan:  FILE.jsonl .ndjson .json .csv .tsv (also .gz) .parquet .arrow .arrows
.feather
                        FOLDER      with [NAME/]SPLIT.jsonl, SPLIT-00000-of-00001.parquet,
                                    SPLIT/*.arrow, ...
                        package:X   a file that comes with evalrun
                        OWNER/NAME  the Hugging Face hub
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evalrun.errors import EvalrunError, Fault, TaskFailure, nearest, unknown, visible
from evalrun.tasks.forms import FORMS, TEXT_FORMS, form_of
from evalrun.tasks.text_files import read_text_rows
from evalrun.tasks.values import MISSING, column_names, is_same, lookup, nested_names
from evalrun.types import DatasetPlan, Pairs

PACKAGE = "package:"
DATA = Path(__file__).parent / "data"
AWAY_S = 300.0  # how long a hub that could not be reached is not tried again
_PART = re.compile(r"(?P<split>.+)-\d+-of-(?P<of>\d+)")


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one split, after the filter.

    Attributes:
        numbers: the place of each row in its source, from 0.
        columns: every column of the source.
        digest: SHA-256 of the file's bytes (several files: of their digests; hub: of the rows),
            before the filter.
        source: for messages.
    """

    rows: Sequence[dict[str, Any]]
    numbers: Sequence[int]
    columns: tuple[str, ...]
    digest: str
    source: str

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, i: int) -> str:
        """Where row i stands, for messages; counted from 1."""
        return f"row {self.numbers[i] + 1} of {self.source}"


def load_rows(dataset: DatasetPlan, base_dir: Path | None = None) -> Rows:
    """The rows of a dataset, never empty.

    Args:
        base_dir: what relative local paths start from.

    Fault: a file, split, column or value that is not as asked. TaskFailure: the hub cannot be
    reached.
    """
    here = is_local(dataset.path, base_dir)
    rows = _load_files(_files(dataset, base_dir), dataset) if here else _load_hub(dataset)
    if not rows.rows:
        raise Fault(
            f"{rows.source} holds no rows, so there is nothing to ask. Set dataset.path to a file "
            "with rows."
        )
    return _filtered(rows, dataset.filter)


def digest_here(dataset: DatasetPlan, base_dir: Path | None = None) -> str | None:
    """The `digest` of local files without reading their rows; None for hub data and for files
    that are not here.
    """
    if not is_local(dataset.path, base_dir):
        return None
    try:
        digests = []
        for path in _files(dataset, base_dir):
            with path.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
    except (Fault, OSError):
        return None
    return _joined(digests)


def _joined(digests: Sequence[str]) -> str:
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()
    )


def is_local(path: str, base_dir: Path | None = None) -> bool:
    """Whether a dataset path means a file or folder of this machine (or of the package), not a
    hub name.
    """
    if path.startswith((PACKAGE, "/", "./", "../", "~")) or path in (".", ".."):
        return True
    return form_of(path) is not None or _resolved(path, base_dir).exists()


def is_file(path: str, base_dir: Path | None = None) -> bool:
    """Whether a dataset path means one file; its splits and names then say nothing."""
    return is_local(path, base_dir) and not _resolved(path, base_dir).is_dir()


def _resolved(path: str, base_dir: Path | None) -> Path:
    if path.startswith(PACKAGE):
        return DATA / path.removeprefix(PACKAGE)
    return (base_dir or Path()) / Path(path).expanduser()


# ---- finding local files -------------------------------------------------------------------------


def _files(dataset: DatasetPlan, base_dir: Path | None) -> list[Path]:
    if dataset.path.startswith(PACKAGE):
        name = dataset.path.removeprefix(PACKAGE)
        packaged = [each.name for each in DATA.iterdir() if form_of(each.name)]
        if name not in packaged:
            raise unknown("data file", name, packaged, "the package (dataset.path)")
        return [DATA / name]
    path = _resolved(dataset.path, base_dir)
    if path.is_dir():
        return _files_of_split(path, dataset)
    if path.is_symlink() and not path.exists():
        raise Fault(
            f"dataset.path={visible(str(path))} is a link to {visible(os.readlink(path))}, which "
            "is not there."
        )
    if not path.exists():
        raise Fault(_no_such_file(path))
    if not path.is_file():
        raise Fault(
            f"dataset.path={visible(str(path))} is no regular file (a pipe or a device), so it "
            "cannot be read."
        )
    if form_of(path.name) is None:
        kinds = ", ".join(FORMS)
        raise Fault(
            f"dataset.path={visible(str(path))} has no suffix that says how to read it. Allowed: "
            f"{kinds}."
        )
    return [path]


def _no_such_file(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        existing = next(each for each in folder.absolute().parents if each.is_dir())
        return (
            f"There is no file {visible(str(path))} (dataset.path): its folder "
            f"{visible(str(folder))} does not exist either. The nearest folder that does is "
            f"{existing}."
        )
    hint = nearest(path.name, (each.name for each in folder.iterdir()))
    guess = f" Did you mean {visible(str(folder / hint))!r}?" if hint else ""
    return (
        f"There is no file {visible(str(path))} (dataset.path), looked for in "
        f"{folder.absolute()}.{guess}"
    )


def _files_of_split(folder: Path, dataset: DatasetPlan) -> list[Path]:
    """The files of a split, in order of their names; the first layout that is there counts."""
    base = folder / dataset.name if dataset.name else folder
    if not base.is_dir():
        inner = [each.name for each in folder.iterdir() if each.is_dir()]
        raise Fault(
            f"{unknown('folder', dataset.name or '', inner, f'{folder} (dataset.name)')} Where the "
            f"files lie in {folder} itself, set tasks.NAME.dataset.name=null."
        )
    for place in (base, base / "data"):
        if place.is_dir() and (found := _split_in(place, dataset.split)):
            return found
    inside = base / dataset.split
    found = _data_files(inside) if inside.is_dir() else []
    if len({form_of(each.name) for each in found}) > 1:
        raise _is_there_twice(dataset.split, inside, found)
    if found:
        return found
    names = [each.name for each in _data_files(base)]
    wanted = f"{base} (dataset.split); a split is a file SPLIT.jsonl, .csv, .parquet, ..."
    raise unknown("split", dataset.split, names, wanted)


def _data_files(folder: Path) -> list[Path]:
    return sorted(
        each for each in folder.iterdir() if each.is_file() and form_of(each.name) is not None
    )


def _split_in(folder: Path, split: str) -> list[Path]:
    """SPLIT.SUFFIX, or all of SPLIT-00000-of-00002.SUFFIX, ...; Fault: both, two forms, or a
    part is missing.
    """
    stems = {each: each.name.removesuffix(".gz").rpartition(".")[0] for each in _data_files(folder)}
    whole = [each for each, stem in stems.items() if stem == split]
    parts = {
        each: m
        for each, stem in stems.items()
        if (m := _PART.fullmatch(stem)) and m["split"] == split
    }
    if (
        len(whole) + bool(parts) > 1
        or len({(m["of"], form_of(each.name)) for each, m in parts.items()}) > 1
    ):
        raise _is_there_twice(split, folder, [*whole, *parts])
    for match in parts.values():
        if len(parts) != int(match["of"]):
            raise Fault(
                f"Of the split {split!r} in {folder} there are {len(parts)} of {int(match['of'])} "
                "parts."
            )
    return [*whole, *parts]


def _is_there_twice(split: str, folder: Path, found: list[Path]) -> Fault:
    names = ", ".join(each.name for each in found)
    return Fault(
        f"The split {split!r} is there more than once in {folder}: {names}. Set dataset.path to "
        "one file."
    )


# ---- reading local files -------------------------------------------------------------------------


def _load_files(paths: list[Path], dataset: DatasetPlan) -> Rows:
    rows: list[dict[str, Any]] = []
    digests = []
    for path in paths:
        try:
            with path.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
            rows += _read(path, dataset.name)
        except OSError as error:
            raise Fault(
                f"{visible(str(path))} cannot be read (dataset.path): {error.strerror or error}."
            ) from error
    source = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    return Rows(rows, range(len(rows)), column_names(rows), _joined(digests), visible(source))


def _read(path: Path, name: str | None) -> list[dict[str, Any]]:
    form = form_of(path.name)
    assert form is not None
    return read_text_rows(path, form, name) if form in TEXT_FORMS else _read_table(path, form)


def _read_table(path: Path, form: str) -> list[dict[str, Any]]:
    """Arrow IPC (file or stream) and Parquet, by their own types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if form == "parquet":
            table = pq.ParquetFile(path).read()
        else:
            with pa.OSFile(str(path), "rb") as source:
                is_file = source.read(6) == b"ARROW1"
                source.seek(0)
                table = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source).read_all()
        table.validate(full=True)
        names = table.column_names
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise Fault(
                f"{path}: column {visible(twice)!r} is there twice. Names of columns are unique."
            )
        rows: list[dict[str, Any]] = table.to_pylist()
    except (pa.ArrowException, ValueError, EOFError) as error:
        kind = "Parquet" if form == "parquet" else "Arrow IPC"
        raise Fault(
            f"{path}: not a whole, valid {kind} file: {visible(_first_line(error))}"
        ) from error
    return rows


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# ---- hub -----------------------------------------------------------------------------------------


def _load_hub(dataset: DatasetPlan) -> Rows:
    """Rows through `datasets.load_dataset`; a failure of the hub fails the task and names the
    way out.
    """
    try:
        import datasets
    except ImportError as error:
        raise Fault(
            f"dataset.path={visible(dataset.path)!r} names a dataset of the hub, which needs the "
            "package `datasets`: pip install datasets. A local file needs no package: "
            "dataset.path=FILE.jsonl."
        ) from error
    source = "/".join(part for part in (dataset.path, dataset.name, dataset.split) if part)
    try:
        with _as_reachable(datasets):
            data = datasets.load_dataset(
                dataset.path, dataset.name, split=dataset.split, revision=dataset.revision
            )
            rows: list[dict[str, Any]] = data.to_list()
    except _hub_errors(datasets) as error:
        raise _hub_fault(dataset, error) from error
    return Rows(rows, range(len(rows)), tuple(data.column_names), digest_of(rows), visible(source))


_away: list[float] = []  # when a hub could last not be reached, by the monotonic clock


@contextmanager
def _as_reachable(datasets: Any) -> Iterator[None]:
    """While the hub is away, the local cache alone is asked: each try takes 24 s to fail, and
    tasks have 57 subsets.
    """
    from huggingface_hub import constants

    switches = [(datasets.config, "HF_HUB_OFFLINE"), (constants, "HF_HUB_OFFLINE")]
    before = [getattr(module, name) for module, name in switches]
    if _away and time.monotonic() - _away[-1] < AWAY_S:
        for module, name in switches:
            setattr(module, name, True)
    try:
        yield
    except ConnectionError:
        if not any(before):
            _away.append(time.monotonic())
        raise
    finally:
        for (module, name), value in zip(switches, before, strict=True):
            setattr(module, name, value)


def _hub_errors(datasets: Any) -> tuple[type[BaseException], ...]:
    """What a failing download raises. The HTTP client's own errors count where it is loaded."""
    clients = [sys.modules[name].HTTPError for name in ("httpx", "httpx2") if name in sys.modules]
    return (
        OSError,
        ValueError,
        RuntimeError,
        ImportError,
        datasets.exceptions.DatasetsError,
        *clients,
    )


def _hub_fault(dataset: DatasetPlan, error: BaseException) -> EvalrunError:
    text = visible(_first_line(error)).rstrip(".")
    named = f"dataset.path={visible(dataset.path)}, name={dataset.name}, split={dataset.split}"
    if isinstance(error, ValueError) and ("Unknown split" in text or "BuilderConfig" in text):
        return Fault(
            f"The dataset has no such part ({named}): {visible(' '.join(str(error).split()))}"
        )
    return TaskFailure(
        f"The dataset could not be loaded from the hub ({named}, revision={dataset.revision}): "
        f"{type(error).__name__}: {text}. With a copy on this machine, set dataset.path=FILE "
        "(.jsonl, .csv, .parquet or .arrow) or a folder of such files."
    )


def digest_of(rows: Sequence[dict[str, Any]]) -> str:
    """SHA-256 over rows as JSON with sorted keys, one per line."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=repr).encode())
        digest.update(b"\n")
    return digest.hexdigest()


# ---- filter --------------------------------------------------------------------------------------


def _filtered(rows: Rows, wanted: Pairs) -> Rows:
    """The rows whose columns hold the wanted values (one of them, where a list is given)."""
    kept = list(range(len(rows)))
    for column, value in wanted:
        values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        cells = column_of(rows, column, "dataset.filter")
        kept = [i for i in kept if any(is_same(cells[i], each) for each in values)]
        if not kept:
            seen = sorted(
                {visible(repr(cell))[:60] for cell in cells if not isinstance(cell, (dict, list))}
            )
            shown = ", ".join(seen[:12]) + (", ..." if len(seen) > 12 else "")
            raise Fault(
                f"dataset.filter.{column}={value!r} leaves none of the {len(rows)} rows of "
                f"{rows.source}. Values there: {shown or 'lists or objects only'}."
            )
    if len(kept) == len(rows):
        return rows
    return replace(rows, rows=[rows.rows[i] for i in kept], numbers=[rows.numbers[i] for i in kept])


def column_of(rows: Rows, column: str, where: str) -> list[Any]:
    """The cells of a column (dots go into nested values), MISSING where a row has none.

    Fault: no row has it.
    """
    cells = [lookup(row, column) for row in rows.rows]
    if column not in rows.columns and all(cell is MISSING for cell in cells):
        names = [*rows.columns, *(nested_names(rows.rows[0]) if rows.rows else ())]
        raise unknown("column", column, names, f"{rows.source} ({where})")
    return cells
