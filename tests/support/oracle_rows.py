"""The rows of the oracle, and how each reaches the package: a metric through evalrun.score, a
function by its name.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import evalrun
from evalrun import text
from evalrun.metrics import make_metric, naming, samples_needed, task_strings
from evalrun.metrics.create import parameter_names
from evalrun.metrics.generation.summaries import EXTRACTIVENESS, extractiveness
from evalrun.metrics.judged import embeddings, ratings
from evalrun.metrics.perplexity import bits_of_sums, perplexity_of_sums
from evalrun.registry import Registry
from evalrun.stats import bootstrap, errorbars, task_averages
from support.workspace import ROOT

PATH = ROOT / "tests" / "cases" / "metrics_oracle.jsonl"
DROPPED = {("llm_judge:parse_rating", "j13")}
"""A rating off the scale is missing, not a rating."""

FACTS = {
    *(
        "aggregation",
        "average",
        "bootstrap_iters",
        "case",
        "corpus_level_fn",
        "group",
        "idf",
        "mean_over",
    ),
    *(
        "multi_gold",
        "normalization",
        "pad_id",
        "precision",
        "scale",
        "single_token",
        "strip_prediction",
        "unit",
    ),
}
"""Parameters of rows that say what the metric is; it has no choice there."""

FIXED = {
    "copyright": {"tokenizer"},
    "extractiveness": {"tokenizer"},
    "maj_at_4_math": {"n", "normalizer"},
    "maj_at_5": {"n", "strip"},
    "maj_at_8": {"n", "strip"},
    "maj_at_8_gsm8k": {"n", "normalizer"},
    "rouge_t5": {"normalizer"},
    "recall_at_1": {"k"},
    "recall_at_2": {"k"},
    "recall_at_1_single_token": {"k"},
    "recall_at_2_single_token": {"k"},
    "maj@n": {"k"},
}
"""The same for one metric only."""

NAMES = {"normalizer": "normalize"}
"""What a row calls a parameter -> ours."""

OUTPUTS = {"em": "drop_em", "f1": "drop_f1"}


def rows() -> dict[str, list[dict[str, Any]]]:
    """Metric -> its rows, those that were dropped left out."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in PATH.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if (row["metric"], row["case_id"]) not in DROPPED:
            found[row["metric"]].append(row)
    return dict(found)


FUNCTIONS: Registry[Callable[[dict[str, Any], dict[str, Any]], Any]] = Registry(
    "function of the oracle"
)


def value_of(row: Mapping[str, Any]) -> Any:
    """What the package gives for a row."""
    name, inputs, params = row["metric"], row["inputs"], row["params"]
    if name.startswith("normalizer:"):
        return text.normalize(name.partition(":")[2], inputs["text"])
    if name in FUNCTIONS:
        return FUNCTIONS.get(name)(inputs, params)
    scores = evalrun.score(name, inputs, **_parameters(name, params))
    expected = row["expected"]
    if isinstance(expected, list):
        return next(iter(scores.per_doc.values()))
    values = {output: estimate.value for output, estimate in scores.items()}
    if isinstance(expected, Mapping) and "error" not in expected:
        return {name: values[OUTPUTS.get(name, name)] for name in expected}
    assert len(values) == 1, values
    return next(iter(values.values()))


def _parameters(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The row's parameters that the metric has. An AssertionError names one that nobody knows."""
    allowed = parameter_names(type(make_metric(name)))
    given = {}
    for key, value in params.items():
        ours = NAMES.get(key, key)
        if key in FIXED.get(name, ()) or (key in FACTS and ours not in allowed):
            continue
        assert ours in allowed, f"{name} has no parameter {ours}"
        given[ours] = value
    return given


def agrees(got: Any, row: Mapping[str, Any]) -> bool:
    """Whether a value is the expected one, at the row's tolerance."""
    expected = row["expected"]
    if expected == {"missing": True}:
        return got is None
    return _equal(got, expected, row)


def _equal(got: Any, expected: Any, row: Mapping[str, Any]) -> bool:
    if isinstance(expected, Mapping):
        is_same = isinstance(got, Mapping) and got.keys() == expected.keys()
        return is_same and all(_equal(got[k], v, row) for k, v in expected.items())
    if isinstance(expected, list):
        return len(got) == len(expected) and all(
            _equal(g, e, row) for g, e in zip(got, expected, strict=True)
        )
    if expected in ("NaN", "Infinity", "-Infinity") and isinstance(got, float):
        return str(got) == {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}[expected]
    if isinstance(expected, str) or got is None or isinstance(got, str):
        return bool(got == expected)
    tol, rtol = row.get("tol", 1e-9), row.get("rtol", 1e-9)
    if row["metric"] in ("bleu_1", "bleu_4"):
        tol = max(tol, 1e-9)
    return math.isclose(got, float(expected), rel_tol=rtol, abs_tol=tol)


# ---- functions -----------------------------------------------------------------------------------


@FUNCTIONS.named("bert_score:core")
def _bert_score(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    return dict(zip("PRF", embeddings.bert_score(**inputs), strict=True))


@FUNCTIONS.named("faithfulness:core")
def _faithfulness(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    return embeddings.summac_zs(**inputs)


@FUNCTIONS.named("llm_judge:parse_rating")
def _rating(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    return ratings.parse_rating(inputs["judgement"])


@FUNCTIONS.named("llm_judge:mean")
def _mean_rating(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    return ratings.mean_rating(
        None if score == params["missing_marker"] else score for score in inputs["scores"]
    )


@FUNCTIONS.named("simpleqa_judge:parse")
def _grade(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    return ratings.parse_simpleqa(inputs["judgement"])


@FUNCTIONS.named("extractiveness_tokens")
def _fragments(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    texts = [[token.lower() for token in inputs[key]] for key in ("text_tokens", "summary_tokens")]
    return dict(zip(EXTRACTIVENESS, extractiveness(*texts), strict=True))


@FUNCTIONS.named("copyright:corpus")
def _copyright_corpus(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    scores = inputs["sample_scores"]
    matrix = {name: np.array(values, dtype=float) for name, values in scores.items()}
    return {output.name: output.reduce(matrix) for output in make_metric("copyright").outputs()}


@FUNCTIONS.named("stderr:mean")
def _mean_stderr(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    return errorbars.mean_stderr(inputs["values"])


@FUNCTIONS.named("stderr:bootstrap")
def _bootstrap(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    population, draws, seed = inputs["population"], params["n_resamples"], params["seed"]
    metric = {"bleu": "bleu", "macro_f1": "f1_score_macro"}.get(inputs["aggregation"])
    if metric is not None:
        return next(iter(evalrun.score(metric, population).values())).stderr
    if inputs["aggregation"] == "max":
        matrix = {"value": np.array(population, dtype=float)}
        replicates = bootstrap.replicates_of_rows(
            matrix, lambda m: float(m["value"].max()), draws, seed
        )
    else:
        formula = {"bpb": bits_of_sums, "ppl": perplexity_of_sums}[inputs["aggregation"]]
        sums = np.array([[each["logprobs"], each["weights"]] for each in population], dtype=float)
        replicates = bootstrap.replicates_of_sums(sums, formula, draws, seed)
    return bootstrap.bootstrap_stderr(replicates)


@FUNCTIONS.named("aisbench")
def _aisbench(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    n = params["num_return_sequences"]
    names = {
        key: naming.shown_name(key, {"k": n, "n": n}, is_service=True)
        for key in ("pass@k", "cons@k", "avg@n")
    }
    scores = {
        shown: evalrun.score(
            key, inputs["samples"], **({"n": n} if key == "avg@n" else {"n": n, "k": n})
        )
        for key, shown in names.items()
    }
    return {shown: next(iter(found.values())).value for shown, found in scores.items()}


@FUNCTIONS.named("metric_name")
def _metric_name(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    key, given = inputs["metric"], inputs["sample_params"]
    if key == "g_pass_at_k":
        return [output.name for output in make_metric(key, given).outputs()]
    return naming.shown_name(key, given)


@FUNCTIONS.named("num_samples")
def _num_samples(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    asked = [dict(each) for each in inputs["metrics"]]
    return max(samples_needed(make_metric(each.pop("metric"), each)) for each in asked)


@FUNCTIONS.named("task_string")
def _task_string(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    task = task_strings.parse_task(inputs["spec"])
    found = {name: list(v) if isinstance(v, tuple) else v for name, v in task.params.items()}
    return {"task": task.name, "fewshot": task.shots or 0, "params": found}


@FUNCTIONS.named("aggregate")
def _aggregate(inputs: dict[str, Any], params: dict[str, Any]) -> Any:
    tasks = {task: _members(metrics, params) for task, metrics in inputs["tasks"].items()}
    found = {}
    for task, numbers in task_averages.aggregate(tasks).items():
        found[task] = {name: number.value for name, number in numbers.items()}
        found[task] |= {
            f"{name}_stderr": e.stderr for name, e in numbers.items() if e.stderr is not None
        }
    return found["t|0"] if params["corpus_level_fn"] == "perplexity" else found


def _members(
    metrics: dict[str, list[Any]], params: dict[str, Any]
) -> dict[str, task_averages.Member]:
    """Metric -> the number of a task from its documents' values."""
    found = {}
    for name, given in metrics.items():
        values = [float(value) for value in given]
        if params["corpus_level_fn"] == "perplexity":
            value = float(perplexity_of_sums(np.array([math.fsum(values), float(len(values))])))
            found[name] = task_averages.Member(value)
        else:
            stderr = errorbars.mean_stderr(values) if params["bootstrap_iters"] else None
            found[name] = task_averages.Member(math.fsum(values) / len(values), stderr)
    return found
