"""Records to the summary: a tidy CSV for programs, Markdown and text for people.

Full precision and unscaled units in the CSV; rounded, in percent, with marks and notes in the
others.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalrun.errors import Fault
from evalrun.stages.summary import SummarySettings, md_text, print_table, txt_text
from evalrun.stages.summary.blocks import MetricRow, blocks, has_number, is_shown
from evalrun.stages.summary.group_rows import groups, with_groups
from evalrun.store.cell import saved_docs as doc_store
from evalrun.store.cell.results import read_record
from evalrun.store.disk import cannot_write, write_text_atomic
from evalrun.store.layout import Run
from evalrun.types import Counts, Estimate, Plan, Record

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COLUMNS",
    "SummarySettings",
    "csv_text",
    "groups",
    "joint",
    "md_text",
    "print_table",
    "results_frame",
    "run",
    "stored_records",
    "tidy",
    "txt_text",
    "write_summary",
]

TEXTS = ("dataset", "version", "metric", "mode", "model", "unit", "signature")
FLOATS = ("value", "stderr", "ci_low", "ci_high")
COLUMNS = (
    *(
        "dataset",
        "version",
        "metric",
        "mode",
        "model",
        "value",
        "unit",
        "stderr",
        "ci_low",
        "ci_high",
    ),
    *("n_docs", "n", "n_scored", "n_error", "n_truncated", "n_unparsed", "signature"),
)


def tidy(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One row per (dataset, metric, model), keys COLUMNS; None is absent.

    Values keep their unit and full precision. Datasets, metrics and models stand in the order of
    the records. A failed or missing task has a row for each metric that another model reports, else
    one with metric `-`; both without a value. A metric that a model does not report has no row.
    """
    rows = []
    for block in blocks(records):
        for row in block.rows:
            for lane, record in block.records.items():
                if is_shown(record, row.estimates.get(lane)):
                    rows.append(_tidy_row(record, row, row.estimates.get(lane)))
    return rows


def _tidy_row(record: Record, row: MetricRow, e: Estimate | None) -> dict[str, Any]:
    cells: dict[str, Any] = dict.fromkeys(COLUMNS)
    cells.update(
        dataset=record.task,
        version=record.version,
        metric=row.name,
        mode=row.mode,
        model=record.model,
        unit=row.unit,
    )
    source: Estimate | Counts = record.counts if e is None else e
    for name in ("n_error", "n_truncated", "n_unparsed"):
        cells[name] = getattr(source, name)
    if e is None:
        cells.update(n_docs=record.n_docs, n=row.n or record.n, n_scored=0)
        return cells
    cells.update(n_docs=e.n_docs, n=e.n, n_scored=e.n_scored, signature=e.signature)
    if has_number(record, e):
        for name in FLOATS:
            number = getattr(e, name)
            cells[name] = None if number is None else float(number)
    return cells


def csv_text(records: Sequence[Record]) -> str:
    """The tidy rows as RFC 4180: lines end in CR LF, fields are quoted where they must be, absent
    is empty.

    Floats are written by `repr`, so reading gives the same number; not finite ones as nan, inf,
    -inf. A lone surrogate, which no encoding can write, becomes its escape.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(tidy(records))
    return out.getvalue().encode("utf-8", "backslashreplace").decode("utf-8")


def write_summary(
    summary_dir: Path, records: Sequence[Record], settings: SummarySettings, stamp: str
) -> list[Path]:
    """Write summary_<stamp>.csv, .md and .txt; `<stamp>_2` (and so on) where one of them exists.

    Their paths.

    Nothing is ever overwritten, also when two processes write at once: the name is claimed by a
    folder that lives as long as the writing. Each file appears whole. TaskFailure where nothing can
    be written.
    """
    texts = {
        "csv": csv_text(records),
        "md": md_text(records, settings),
        "txt": txt_text(records, settings),
    }
    for number in itertools.count(1):
        stem = f"summary_{stamp}" if number == 1 else f"summary_{stamp}_{number}"
        paths = [summary_dir / f"{stem}.{ending}" for ending in texts]
        with _claimed(summary_dir / f".{stem}.claim") as is_ours:
            if is_ours and not any(path.exists() for path in paths):
                for path, text in zip(paths, texts.values(), strict=True):
                    write_text_atomic(path, text)
                return paths
    raise AssertionError("the numbers do not end")


@contextmanager
def _claimed(claim: Path) -> Iterator[bool]:
    """True for the one process that holds the folder `claim`, which lives as long as the
    context.
    """
    try:
        claim.parent.mkdir(parents=True, exist_ok=True)
        claim.mkdir()
    except FileExistsError:
        if claim.parent.is_dir():
            yield False
            return
        raise Fault(
            f"{claim.parent} is not a folder, so no summary can be written there."
        ) from None
    except OSError as cause:
        raise cannot_write(claim.parent, cause) from cause
    try:
        yield True
    finally:
        claim.rmdir()


def results_frame(records: Sequence[Record]) -> pd.DataFrame:
    """The tidy rows as a DataFrame with columns COLUMNS: float64 (absent: NaN), Int64, and text
    (absent: None).
    """
    import pandas as pd

    rows = tidy(records)
    frame = {}
    for name in COLUMNS:
        kind = "float64" if name in FLOATS else "object" if name in TEXTS else "Int64"
        frame[name] = pd.Series([row[name] for row in rows], dtype=kind)
    return pd.DataFrame(frame, columns=list(COLUMNS))


def run(run_folder: Run, records: Sequence[Record], settings: Mapping[str, Any]) -> list[Path]:
    """Write a run's summary, its averages among it, and print its table.

    Returns the paths written.
    """
    return _show(run_folder.summary_dir, records, settings)


def joint(sweep: Path, records: Sequence[Record], settings: Mapping[str, Any]) -> list[Path]:
    """The same for all jobs of a sweep together, into its own summary folder."""
    return _show(sweep / "summary", records, settings)


def _show(folder: Path, records: Sequence[Record], settings: Mapping[str, Any]) -> list[Path]:
    from rich.console import Console

    chosen = SummarySettings.from_mapping(settings)
    records = with_groups(records, chosen.weighted)
    paths = write_summary(folder, records, chosen, f"{datetime.now().astimezone():%Y%m%d_%H%M%S}")
    print_table(records, Console(highlight=False, markup=False, emoji=False), chosen)
    print(f"summary: {paths[0].with_suffix('')}.{{csv,md,txt}}")
    return paths


def stored_records(run_folder: Run, plan: Plan) -> list[Record]:
    """The results that are stored for the plan's cells, with every estimate ever made of them.

    Fault where no cell has any.
    """
    found = [read_record(run_folder.cell(plan.model.name, cell.name)) for cell in plan.cells]
    records = [
        _with_note_of_fewer(
            _with_note_of_old(record, plan.max_error_rate),
            doc_store.count(run_folder.cell(record.model, record.task)),
        )
        for record in found
        if record is not None
    ]
    if not records:
        raise Fault(
            f"{run_folder.path} has no results yet. Score it first: --mode eval --reuse "
            f"{run_folder.path}."
        )
    return records


def _with_note_of_old(record: Record, max_error_rate: float) -> Record:
    """The record with a note on numbers that were scored while more samples had failed than now."""
    now = record.counts.n_error
    old = [
        e.display for e in record.estimates if e.n_error > max(now, max_error_rate * e.n_docs * e.n)
    ]
    if not old:
        return record
    names = ", ".join(dict.fromkeys(old))
    note = (
        f"{names}: scored before failed samples were asked again; --mode eval with these metrics "
        "scores them anew"
    )
    return replace(record, notes=(*record.notes, note))


def _with_note_of_fewer(record: Record, n_stored: int | None) -> Record:
    """The record with a note on numbers of fewer documents than the run holds now."""
    if n_stored is None:
        return record
    notes = [
        f"{e.display}: over {e.n_docs} of the {n_stored} documents of the run"
        for e in record.estimates
        if e.n_docs < n_stored
    ]
    return replace(record, notes=(*record.notes, *dict.fromkeys(notes)))
