"""evalrun score METRIC ... FILE: predictions that lie in a file become numbers, without a run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evalrun.commands.parser import CommandParser
from evalrun.errors import Fault
from evalrun.metrics import METRICS, foreign
from evalrun.metrics.naming import parse_metric
from evalrun.planning import own_metrics
from evalrun.stages.direct import Scores, score_rows
from evalrun.stages.summary import SummarySettings, print_table
from evalrun.store.disk import write_text_atomic
from evalrun.strict_json import to_json
from evalrun.tasks.rows import load_rows
from evalrun.tasks.sources.local_files import is_file
from evalrun.types import DatasetPlan, Record


def main(argv: list[str]) -> int:
    """Score the file with every metric that is named and print the table. Returns the exit code."""
    args = _parser().parse_args(argv)
    *metrics, file = args.words
    if not metrics:
        words = f"{file} FILE.jsonl" if file in METRICS else f"METRIC {file}"
        raise Fault(f"evalrun score needs a metric and a file: evalrun score {words}.")
    for path in args.metric_file:
        own_metrics.load(path, "--metric-file")
    keys = [_key(metric) for metric in metrics]
    found = _scored(metrics, Path(file))
    if args.per_doc is not None:
        write_text_atomic(Path(args.per_doc), _per_doc(found))
    if args.json:
        numbers = [asdict(e) for scores in found for e in scores.values()]
        notes = [note for scores in found for note in scores.notes]
        print(to_json({"file": file, "estimates": numbers, "notes": notes}, indent=1))
    else:
        _print(_records(keys, found, Path(file).name))
    return 3 if any(e.n_error for scores in found for e in scores.values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser("score", __doc__)
    parser.add_argument(
        "words",
        nargs="+",
        metavar="METRIC ... FILE",
        help=(
            "metrics, such as rouge1 or 'pass@k:k=2&n=5' or my_metric.py, then the file: .jsonl, "
            ".json, .csv, .parquet"
        ),
    )
    parser.add_argument(
        "--json", action="store_true", help="print estimates as JSON in place of the table"
    )
    parser.add_argument(
        "--per-doc",
        metavar="FILE",
        help="write the values of each document, one JSON object a line",
    )
    parser.add_argument(
        "--metric-file",
        metavar="FILE.py",
        action="append",
        default=[],
        help="your own metric, to be named by its name",
    )
    return parser


def _key(metric: str) -> str:
    """The name in the registry. A user's own file, or an installed package, is imported here."""
    if metric.endswith(".py"):
        return own_metrics.load(metric).metric
    foreign.register_entry_point(metric.partition(":")[0].strip())
    return METRICS.key(parse_metric(metric)[0])


def _scored(metrics: Sequence[str], file: Path) -> list[Scores]:
    if not is_file(str(file)):
        raise Fault(
            f"There is no file {file} to score. The file stands last: evalrun score METRIC ... "
            "FILE.jsonl."
        )
    rows = load_rows(DatasetPlan(path=str(file)))
    places = [rows.place(i) for i in range(len(rows))]
    return [score_rows(metric, rows.rows, {}, {}, places) for metric in metrics]


def _per_doc(found: Sequence[Scores]) -> str:
    """One JSON object a line: the document's id, then its value of every output (null: not
    scored).
    """
    columns: dict[str, Sequence[Any]] = {"id": found[0].ids}
    for scores in found:
        for output, values in scores.per_doc.items():
            shown = scores[output].display
            name = output if output not in columns else shown
            if name in columns and columns[name] != values:
                name = scores[output].signature
            columns[name] = values
    lines = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    return "".join(to_json(line) + "\n" for line in lines)


def _records(keys: Sequence[str], found: Sequence[Scores], name: str) -> list[Record]:
    """One record per request kind; the only column of the table is called value."""
    records = []
    for kind in dict.fromkeys(METRICS.get(key).reads for key in keys):
        chosen = [
            scores
            for key, scores in zip(keys, found, strict=True)
            if METRICS.get(key).reads is kind
        ]
        estimates = tuple(e for scores in chosen for e in scores.values())
        notes = tuple(dict.fromkeys(note for scores in chosen for note in scores.notes))
        records.append(
            Record(
                model="value",
                task=name,
                version="",
                mode=kind.mode,
                state="complete",
                reason=None,
                log=None,
                n_docs=estimates[0].n_docs,
                n=max(e.n for e in estimates),
                notes=notes,
                estimates=estimates,
            )
        )
    return records


def _print(records: Sequence[Record]) -> None:
    from rich.console import Console

    print_table(records, Console(highlight=False, markup=False, emoji=False), SummarySettings())
