"""The stored answers of a run as a DataFrame: one row for each answer and scorer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalrun.errors import unknown
from evalrun.runs import find
from evalrun.runs.stored import Stored
from evalrun.store.cell import predictions, saved_docs
from evalrun.store.cell.files import CellFiles
from evalrun.store.cell.verdicts import verdict_columns
from evalrun.types import Cell, Kind

if TYPE_CHECKING:
    import pandas as pd

KEY = ("doc_id", "kind", "index", "turn")
REPLY = (
    *("reasoning", "status", "finish_reason"),
    *("prompt_tokens", "completion_tokens", "logprob"),
)
VERDICT = ("scorer", "value", "extracted", "span_start", "span_end", "rule", "state")
COLUMNS = (
    *("model", "task", "subset", *KEY[:2], "turn", "index"),
    *("prompt", "answer", "reasoning", "gold", "choices"),
    *VERDICT,
    *("status", "finish_reason", "prompt_tokens", "completion_tokens", "logprob"),
)
PASSED_ON = ("is_weak", "reason", "runner_up")
"""Columns of verdicts that come last, where the stored verdicts have them."""

_WHOLE = ("span_start", "span_end", "prompt_tokens", "completion_tokens")
_REAL = ("value", "logprob")


def samples(
    run: str, output_dir: Path, task: str | None = None, model: str | None = None
) -> pd.DataFrame:
    """Every stored answer of a run with its verdicts; see evalrun.samples."""
    import pandas as pd

    found = find.all_by_name(run, output_dir, "evalrun.samples")
    chosen = _chosen(found, task, model)
    frames = [_cell_frame(stored, cell) for stored, cell in chosen if _has_rows(stored, cell)]
    if not frames:
        return pd.DataFrame(columns=list(COLUMNS))
    whole = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    return whole[[*COLUMNS, *(name for name in PASSED_ON if name in whole)]]


def _chosen(
    found: Sequence[Stored], task: str | None, model: str | None
) -> list[tuple[Stored, Cell]]:
    """The cells that are meant. Fault for a model or task that the run does not hold."""
    where = ", ".join(str(stored.run.path) for stored in found[:3])
    models = {stored.plan.model.name for stored in found}
    if model is not None and model not in models:
        raise unknown("model", model, models, where)
    ours = [s for s in found if model in (None, s.plan.model.name)]
    cells = [(stored, cell) for stored in ours for cell in stored.plan.cells]
    if task is None:
        return cells
    chosen = [(stored, cell) for stored, cell in cells if task in (cell.task, cell.name)]
    if not chosen:
        raise unknown("task", task, {cell.name for _, cell in cells}, where)
    return chosen


def _has_rows(stored: Stored, cell: Cell) -> bool:
    rows = stored.files(cell).predictions
    return rows.file.exists() or bool(rows.shards())


def _cell_frame(stored: Stored, cell: Cell) -> pd.DataFrame:
    import pandas as pd

    files = stored.files(cell)
    saved = predictions.read(files)
    rows = pd.DataFrame({name: saved.column(name) for name in (*KEY, "text", *REPLY)}, dtype=object)
    rows = rows.rename(columns={"text": "answer"})
    for name, values in _of_docs(files, rows).items():
        rows[name] = pd.Series(values, dtype=object)
    rows["model"], rows["task"], rows["subset"] = stored.plan.model.name, cell.task, cell.subset
    judged = _verdicts(files)
    frame = rows.merge(judged, how="left", on=list(KEY)) if judged is not None else rows
    for name in VERDICT:
        if name not in frame:
            frame[name] = None
    frame["scorer"] = frame["scorer"].fillna("")
    return _typed(frame)


def _of_docs(files: CellFiles, rows: pd.DataFrame) -> dict[str, list[Any]]:
    """What comes from the document of each row: prompt, gold, choices, and the answer, which for
    log-likelihoods is the choice that was scored.
    """
    docs = {saved.doc.id: saved for saved in saved_docs.read_docs(files)}
    prompts = {key: saved.prompt for key, saved in docs.items()}
    golds = {key: list(saved.doc.gold_texts) for key, saved in docs.items()}
    choices = {key: list(saved.doc.choices) for key, saved in docs.items()}
    ids = rows["doc_id"].tolist()
    scored = (Kind.LOGLIKELIHOOD.value, Kind.UNCONDITIONED.value)
    answers = [
        _choice(choices.get(doc_id), index) if kind in scored else text
        for doc_id, kind, index, text in zip(
            ids, rows["kind"], rows["index"], rows["answer"], strict=True
        )
    ]
    return {
        "prompt": list(map(prompts.get, ids)),
        "gold": list(map(golds.get, ids)),
        "choices": list(map(choices.get, ids)),
        "answer": answers,
    }


def _choice(choices: Sequence[str] | None, index: int) -> str | None:
    return choices[index] if choices is not None and index < len(choices) else None


def _verdicts(files: CellFiles) -> pd.DataFrame | None:
    """The verdicts, with the key of what they judge: generated texts of the first turn."""
    import pandas as pd

    columns = verdict_columns(files)
    if not columns:
        return None
    named = ("doc_id", "index", *VERDICT, *PASSED_ON)
    frame = pd.DataFrame({k: v for k, v in columns.items() if k in named}, dtype=object)
    return frame.assign(kind=Kind.GENERATE.value, turn=0)


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as numbers (absent: NaN or <NA>), texts as text (absent: None)."""
    kinds = {
        **dict.fromkeys(("index", "turn"), "int64"),
        **dict.fromkeys(_WHOLE, "Int64"),
        **dict.fromkeys(_REAL, "float64"),
    }
    frame = frame.astype(kinds)
    for name in frame.columns.difference([*kinds, "is_weak"]):
        texts = frame[name].astype(object)
        frame[name] = texts.where(texts.notna(), None)
    return frame
