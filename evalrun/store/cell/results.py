"""Results of one cell: estimates as strict JSON, statistics per document, stage times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from evalrun.errors import Fault, visible
from evalrun.json_types import structured
from evalrun.store.cell.files import CellFiles
from evalrun.store.disk import alone_in, read_small, write_text_atomic
from evalrun.strict_json import Misfit, from_object, number, plain, to_json
from evalrun.types import Consistency, Counts, Estimate, Record
from evalrun.version import __version__

FORMAT_VERSION = 1
LONGEST_BYTES = 1_000_000_000

_Signed = TypeVar("_Signed", Estimate, Consistency)


@dataclass(frozen=True)
class Results:
    """A results file.

    Attributes:
        header: what identifies the cell.
        counts: samples per outcome.
        estimates: in stored order.
        consistency: likewise; none in a file written before it was counted.
    """

    header: dict[str, Any]
    counts: dict[str, Any]
    estimates: tuple[Estimate, ...]
    consistency: tuple[Consistency, ...] = ()


def merge(old: Sequence[Estimate], new: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """Old estimates in their order, each replaced by the new one of its signature; then the other
    new ones.

    Nothing is removed. Fault where two of `new` have one signature.
    """
    by_signature: dict[str, Estimate] = {}
    for estimate in new:
        other = by_signature.setdefault(estimate.signature, estimate)
        if other is not estimate:
            names = f"{other.display!r} and {estimate.display!r}"
            raise Fault(
                f"Two estimates, {names}, have one signature {estimate.signature!r}; ask for one "
                "of them."
            )
    return _joined(old, by_signature)


def _joined(old: Sequence[_Signed], new: dict[str, _Signed]) -> tuple[_Signed, ...]:
    left: dict[str, _Signed] = dict(new)
    kept: list[_Signed] = [left.pop(each.signature, each) for each in old]
    return tuple(kept + list(left.values()))


def write_results(
    files: CellFiles,
    header: Mapping[str, Any],
    estimates: Sequence[Estimate],
    counts: Counts | Mapping[str, Any],
    consistency: Sequence[Consistency] = (),
) -> None:
    """Store estimates and consistency, merged into what is stored; header and counts are replaced.

    Strict JSON: nan and infinities are the texts "NaN", "Infinity", "-Infinity". Equal content
    gives equal bytes; the caller keeps wall times, pids and absolute paths out of header and
    counts. TaskFailure on OSError.
    """
    path = files.results_file
    with alone_in(path.parent):
        old = read_results(files)
        merged = merge(old.estimates if old else (), estimates)
        counted = _joined(
            old.consistency if old else (), {each.signature: each for each in consistency}
        )
        content = {
            "format_version": FORMAT_VERSION,
            "header": plain(header),
            "counts": plain(counts),
            "estimates": [asdict(estimate) for estimate in merged],
            "consistency": [asdict(each) for each in counted],
        }
        write_text_atomic(path, to_json(content, indent=2) + "\n")


def read_results(files: CellFiles) -> Results | None:
    """The stored results; None where there are none.

    Fault, naming file and key, where the file is newer than we are or not sound.
    """
    path = files.results_file
    content = _read_json(path)
    if content is None:
        return None
    version = content.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise Fault(f"{path} is no results file of evalrun: format_version is {version!r:.100}.")
    if version > FORMAT_VERSION:
        raise Fault(
            f"{path} has format_version {version}; evalrun {__version__} reads results up to "
            f"format_version {FORMAT_VERSION}. Use a newer evalrun."
        )
    try:
        stored = structured(Results, content, has_more=True)
        for place, each in enumerate(stored.consistency):
            _check_counts(each, f"consistency[{place}]")
    except Misfit as misfit:
        raise _unsound(path, misfit) from misfit
    return stored


def write_record(files: CellFiles, record: Record) -> None:
    """`write_results` for a Record: its counts, estimates, consistency, and all other fields as
    the header.
    """
    apart = ("counts", "estimates", "consistency")
    header = {f.name: getattr(record, f.name) for f in fields(record) if f.name not in apart}
    write_results(files, header, record.estimates, record.counts, record.consistency)


def read_record(files: CellFiles) -> Record | None:
    """The Record of `write_record`, with every estimate stored so far; None where there is none.

    Fault: not sound.
    """
    results = read_results(files)
    if results is None:
        return None
    try:
        record = structured(Record, {**results.header, "counts": results.counts})
    except Misfit as misfit:
        raise _unsound(files.results_file, misfit.inside("header")) from misfit
    return replace(record, estimates=results.estimates, consistency=results.consistency)


def write_times(files: CellFiles, times: Mapping[str, float]) -> None:
    """Store stage times in seconds, merged by name into what is stored. TaskFailure on OSError."""
    path = files.times_file
    with alone_in(path.parent):
        write_text_atomic(path, to_json({**read_times(files), **times}, indent=2) + "\n")


def read_times(files: CellFiles) -> dict[str, float]:
    """Stage name -> seconds; empty where none are stored. Fault where the file is not sound."""
    times = {name: number(value) for name, value in (_read_json(files.times_file) or {}).items()}
    for name, value in times.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _unsound(
                files.times_file, Misfit(f"is {value!r:.100}; it must be a number", name)
            )
    return times


def _check_counts(found: Consistency, path: str) -> None:
    """Misfit where the numbers are no counts of documents and samples."""
    counts = (found.n, found.always, found.mostly, found.unstable, found.never, found.n_right)
    if min(counts) < 0:
        raise Misfit("holds something other than counts", path)
    if not (found.n and found.n_scored):
        raise Misfit("counts no document", path)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        return from_object(read_small(path, LONGEST_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as cause:
        raise _unsound(path, cause) from cause


def _unsound(path: Path, cause: BaseException) -> Fault:
    return Fault(
        f"{path} cannot be read: {visible(str(cause))}. It was left as it is; move it away and "
        "score again."
    )
