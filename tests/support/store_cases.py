"""Made rows for the tests of the store, and the golden file of row version 1.

`python tests/store_cases.py` writes tests/cases/predictions_v1.arrow and .arrows from GOLDEN with
the code at hand. They were written once, by the first version; a later version reads them and never
writes them again.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from hypothesis import strategies as st

from evalrun.store.cell.predictions import open_writer
from evalrun.store.layout import Run
from evalrun.types import Reply, Status
from support.workspace import ROOT

CASES = ROOT / "tests" / "cases"
META = {"ask_id": "a1b2c3", "content": '{"engine":"replay"}', "n": "2"}

GOLDEN = [
    Reply(
        "q1",
        "generate",
        0,
        text="The answer is 4.",
        completion_tokens=5,
        finish_reason="stop",
        seed=7,
        attempts=1,
    ),
    Reply(
        "q1",
        "generate",
        1,
        text="4",
        reasoning="2+2",
        raw_text="<think>2+2</think>4",
        started_s=1.5,
        ended_s=2.25,
    ),
    Reply(
        "q2",
        "generate",
        0,
        status="error",
        error_type="http",
        error_message="500",
        http_status=500,
        attempts=5,
    ),
    Reply(
        "q2",
        "generate",
        1,
        status="truncated",
        text="Größe 数 \U0001f600\x00",
        token_ids=(1, 2, 3),
        extra='{"a":1}',
    ),
    Reply(
        "q3",
        "generate",
        0,
        status="empty",
        text="",
        logprob=-0.5,
        n_tokens=0,
        is_greedy=False,
        token_ids=(),
    ),
    Reply("q3", "generate", 1, turn=1, status="timeout", prompt_tokens=2**40, first_token_s=1e-3),
]

WHOLE = st.none() | st.integers(-(2**63), 2**63 - 1)
NUMBER = st.none() | st.floats(allow_nan=False)
WORDS = st.none() | st.text(max_size=20)

REPLIES = st.builds(
    Reply,
    doc_id=st.text(max_size=4),
    kind=st.sampled_from(["generate", "loglikelihood"]),
    index=st.integers(0, 3),
    turn=st.integers(0, 1),
    status=st.sampled_from([status.value for status in Status]),
    text=WORDS,
    reasoning=WORDS,
    raw_text=WORDS,
    logprob=NUMBER,
    n_tokens=WHOLE,
    is_greedy=st.none() | st.booleans(),
    token_ids=st.none() | st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3).map(tuple),
    prompt_tokens=WHOLE,
    completion_tokens=WHOLE,
    finish_reason=WORDS,
    http_status=WHOLE,
    error_type=WORDS,
    error_message=WORDS,
    attempts=st.integers(0, 9),
    seed=WHOLE,
    started_s=NUMBER,
    first_token_s=NUMBER,
    ended_s=NUMBER,
    extra=WORDS,
)


def reply(doc: str, index: int = 0, text: str | None = "x", status: str = "ok") -> Reply:
    """A short row."""
    return Reply(doc, "generate", index, text=text, status=status)


def stored(run: Run, rows: list[Reply], *, is_final: bool = False) -> Path:
    """Write `rows` for model m, task t with one writer; gives the file they stand in."""
    with open_writer(run.cell("m", "t"), META) as writer:
        for row in rows:
            writer.append(row)
        if is_final:
            writer.finalize(list(dict.fromkeys(row.doc_id for row in rows)))
    return (
        run.cell("m", "t").predictions.file
        if is_final
        else run.cell("m", "t").predictions.shards()[-1]
    )


def whole_batches(data: bytes) -> list[tuple[int, int]]:
    """(end in bytes, rows so far) after the header and after each batch of a sound stream."""
    source = pa.BufferReader(data)
    reader = pa.ipc.open_stream(source)
    ends = [(source.tell(), 0)]
    for batch in reader:
        ends.append((source.tell(), ends[-1][1] + batch.num_rows))
    return ends


def write_golden() -> None:
    """Write the golden files."""
    import tempfile

    for is_final, name in ((True, "predictions_v1.arrow"), (False, "predictions_v1.arrows")):
        with tempfile.TemporaryDirectory() as folder:
            (CASES / name).write_bytes(
                stored(Run(Path(folder)), GOLDEN, is_final=is_final).read_bytes()
            )


if __name__ == "__main__":
    write_golden()
