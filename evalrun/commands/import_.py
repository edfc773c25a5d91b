"""evalrun import FILE: saved predictions of others become a run that --mode eval scores."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from evalrun.commands.parser import CommandParser
from evalrun.errors import Fault
from evalrun.interop.table_columns import Imported, read
from evalrun.planning import build, to_json
from evalrun.store.cell import predictions, saved_docs
from evalrun.store.layout import Run, write_text_atomic
from evalrun.types import Cell, Plan
from evalrun.version import __version__


def main(argv: list[str]) -> int:
    """Read the file, write the run, say how to score it. Returns the exit code."""
    args = _parser().parse_args(argv)
    plan = _plan(args, 1)
    cell = plan.cells[0]
    imported = read(cell, args.prediction.split(","), args.id)
    if imported.n > 1:
        plan = _plan(args, imported.n)
    run = Run.claim(Path(args.output_dir))
    _write(run, plan, plan.cells[0], imported)
    print(
        f"{len(imported.docs)} documents x {imported.n} samples of model {args.model}, task "
        f"{args.task}: {run.path}\nscore them: evalrun --mode eval --reuse {run.path}"
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser("import", __doc__)
    parser.add_argument("file", help=".jsonl, .json, .csv, .tsv, .parquet or .arrow")
    parser.add_argument(
        "--question", required=True, metavar="COLUMN", help="dots reach into nested values"
    )
    parser.add_argument("--gold", required=True, metavar="COLUMN")
    parser.add_argument(
        "--prediction", required=True, metavar="COLUMN[,COLUMN]", help="several: one per sample"
    )
    parser.add_argument("--task", required=True, help="the task whose scorer and metrics apply")
    parser.add_argument("--model", required=True, help="the name that the tables show")
    parser.add_argument(
        "--id", metavar="COLUMN", help="rows that share it are samples of one document"
    )
    parser.add_argument("--output-dir", default="outputs")
    return parser


def _plan(args: argparse.Namespace, n: int) -> Plan:
    from evalrun.config import composing, places
    from evalrun.errors import unknown
    from evalrun.grammar import quoted

    tasks = places.names("task")
    if args.task not in tasks:
        raise unknown("task", args.task, tasks, "--task")
    if not Path(args.file).expanduser().is_file():
        raise Fault(f"There is no file {args.file} to import.")
    at = f"tasks.{args.task}.dataset"
    file = quoted(str(Path(args.file).expanduser().resolve()))
    overrides = [
        "mode=infer",
        "model=replay",
        f"model.name={quoted(args.model)}",
        f"model.path={file}",
        f"task={args.task}",
        f"{at}.path={file}",
        f"{at}.name=null",
        f"{at}.revision=null",
        f"++{at}.columns.query={quoted(args.question)}",
        f"++{at}.columns.gold={quoted(args.gold)}",
        f"++{at}.columns.id={quoted(args.id) if args.id else 'null'}",
        f"num_return_sequences={n if n > 1 else 'null'}",
    ]
    try:
        config = composing.composed(overrides)
    except composing.ERRORS as error:
        raise Fault(
            f"The configuration of task {args.task} cannot be composed: "
            f"{str(error).splitlines()[0]}"
        ) from error
    task = config.tasks[args.task]
    task.dataset.columns = {k: v for k, v in task.dataset.columns.items() if v is not None}
    # The file is the whole data: what picks a part of the task's own dataset says nothing of it.
    task.dataset.filter, task.subsets = {}, []
    return replace(build(config), notes=(f"imported from {Path(args.file).name}",))


def _write(run: Run, plan: Plan, cell: Cell, imported: Imported) -> None:
    files = run.cell(plan.model.name, cell.name)
    metadata = {
        "ask_id": cell.ask_id,
        "content": json.dumps({"dataset": imported.digest, "engine": "import"}),
        "n": str(cell.n),
        "evalrun": __version__,
    }
    saved_docs.write_docs(files, imported.docs, {}, {**metadata, "dataset": imported.digest})
    with predictions.open_writer(files, metadata) as writer:
        for reply in imported.replies:
            writer.append(reply)
        writer.finalize([doc.id for doc in imported.docs])
    write_text_atomic(run.plan_file, to_json(plan))
