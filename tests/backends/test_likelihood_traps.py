"""Log-likelihoods against a plain forward pass that knows nothing of evalrun, on texts and
settings that invite faults.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.workspace import Evalrun, run_folders

from evalrun.backends.hf.backend import HfBackend
from evalrun.errors import Fault
from evalrun.types import Key, Loglikelihood, Message, ModelPlan, Reply, Request, Rolling

MERGES = (("u", "n"), ("un", "b"), ("Ġ", "A"), ("a", "b"), ("ab", "c"), ("Ċ", "Ċ"), (":", "Ġ"))
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor "
    "%}[assistant]"
)
PIECES = (
    "un",
    "believable",
    " un",
    " ",
    "  ",
    "\n",
    "\n\n",
    "A",
    " A",
    "abc",
    "ab",
    "a",
    "é",
    "😀",
    "日本",
    "\u00a0",
    "\u200d",
    "\x00",
    "\x1b[31m",
    "\u2028",
    "Answer:",
    ": ",
    "</s>",
)
NEAR = 1e-3


def save(folder: Path, has_bos: bool) -> Path:
    """A tiny model over bytes with a few merges; has_bos: its tokenizer puts <s> before every
    text.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    names = [
        "<s>",
        "</s>",
        *sorted(pre_tokenizers.ByteLevel.alphabet()),
        *(a + b for a, b in MERGES),
    ]
    inner = Tokenizer(
        models.BPE(vocab={name: i for i, name in enumerate(names)}, merges=list(MERGES))
    )
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    if has_bos:
        inner.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    words = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>")
    words.chat_template = TEMPLATE
    words.save_pretrained(folder)
    torch.manual_seed(3)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    config = LlamaConfig(
        vocab_size=len(words),
        max_position_embeddings=64,
        initializer_range=0.5,
        bos_token_id=0,
        eos_token_id=1,
        **sizes,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


class Plain:
    """A model and its tokenizer by transformers alone, one text at a time."""

    def __init__(self, folder: Path, has_bos: bool) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.folder, self.has_bos = folder, has_bos
        self._words = AutoTokenizer.from_pretrained(folder)
        self._net = AutoModelForCausalLM.from_pretrained(folder).eval()

    def ids(self, text: str) -> list[int]:
        found: list[int] = self._words.encode(text, add_special_tokens=False)
        return found

    def score(self, ids: list[int], start: int) -> float:
        """The sum over ids[start:], each given all before it."""
        import torch

        with torch.inference_mode():
            table = self._net(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        return sum(float(table[i - 1, ids[i]]) for i in range(start, len(ids)))

    def choice(
        self, context: str, continuation: str, is_joint: bool, limit: int
    ) -> tuple[float, int, bool, int] | None:
        """(logprob, tokens, whether one spans the border, tokens cut); None where the
        continuation is too long.
        """
        bare = context.rstrip()
        continuation = context[len(bare) :] + continuation
        before, whole = self.ids(bare), self.ids(bare + continuation)
        start = next(
            (i for i, (a, b) in enumerate(zip(before, whole, strict=False)) if a != b), len(before)
        )
        is_spanning = start < len(before)
        if not is_joint:
            whole, start = [*before, *self.ids(continuation)], len(before)
        has_head = self.has_bos or start == 0
        ids, start = ([0, *whole], start + 1) if has_head else (whole, start)
        n_cut = max(0, len(ids) - limit - 1)  # the last token is read, never fed
        if start - n_cut < 1:
            return None
        ids = [*ids[: int(has_head)], *ids[int(has_head) + n_cut :]]
        return self.score(ids, start - n_cut), len(ids) - start + n_cut, is_spanning, n_cut

    def text(self, text: str, limit: int) -> tuple[float, int]:
        """(logprob, tokens): windows of `limit` new tokens, the last one filled with earlier
        ones.
        """
        ids = self.ids(text)
        total, done = self.score([0, *ids[:limit]], 1), min(limit, len(ids))
        while done < len(ids):
            end = min(done + limit, len(ids))
            window = ids[max(0, end - limit - 1) : end]
            total += self.score(window, len(window) - (end - done))
            done = end
        return total, len(ids)


@pytest.fixture(scope="module", params=[True, False], ids=["adds-bos", "adds-none"])
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Plain:
    return Plain(save(tmp_path_factory.mktemp("model"), request.param), request.param)


def rows_of(plain: Plain, requests: Sequence[Request], **keys: Any) -> dict[Key, Reply]:
    rows: list[Reply] = []
    HfBackend(ModelPlan("m", "hf", path=str(plain.folder), **keys)).run(requests, rows.append)
    found = {row.key: row for row in rows}
    assert len(found) == len(rows) == len(requests)
    return found


def mixed(draw: random.Random, low: int, high: int) -> str:
    return "".join(draw.choice(PIECES) for _ in range(draw.randint(low, high)))


def odd_requests(n_docs: int, seed: int = 1) -> list[Loglikelihood]:
    """Documents of 1 to 5 choices: beginnings of each other, repeated, long; contexts that are
    blank, cut or none.
    """
    draw = random.Random(seed)
    made = []
    for d in range(n_docs):
        context, word = (
            draw.choice(("", mixed(draw, 0, 25), mixed(draw, 1, 3) + "un")),
            mixed(draw, 1, 6),
        )
        choices = [
            draw.choice((word[: draw.randint(1, len(word))], word, mixed(draw, 1, 6)))
            for _ in range(d % 5)
        ]
        choices += [mixed(draw, 30, 60) if d % 11 == 0 else "believable"]
        messages = (Message("user", context),) if context else ()
        made += [Loglikelihood(f"d{d}", i, messages, choice) for i, choice in enumerate(choices)]
    draw.shuffle(made)
    return made


@pytest.mark.parametrize(
    ("boundary", "batch_size"), [("joint", None), ("separate", 1), ("joint", 3), ("separate", 16)]
)
def test_odd_texts_against_a_plain_forward_pass(
    plain: Plain, boundary: str, batch_size: int | None
) -> None:
    requests, limit = odd_requests(40), 40
    rows = rows_of(
        plain, requests, token_boundary=boundary, batch_size=batch_size, max_model_len=limit
    )
    n_refused = n_spanning = n_cut = 0
    for request in requests:
        row = rows[request.keys()[0]]
        context = request.messages[0].content if request.messages else ""
        want = plain.choice(context, request.continuation, boundary == "joint", limit)
        if want is None:
            n_refused += 1
            assert row.error_type == "continuation_too_long", row
            continue
        extra = json.loads(row.extra or "{}")
        assert row.logprob == pytest.approx(want[0], abs=NEAR), request
        assert (row.n_tokens, extra.get("spanning", False), extra.get("cut_tokens", 0)) == want[
            1:
        ], request
        n_spanning, n_cut = n_spanning + want[2], n_cut + bool(want[3])
    assert min(n_refused, n_spanning, n_cut) > 0


def test_a_border_that_merges_has_two_values(plain: Plain) -> None:
    request = Loglikelihood("d", 0, (Message("user", "It is un"),), "believable")
    row, other = (
        rows_of(plain, [request], token_boundary=b)[request.keys()[0]]
        for b in ("joint", "separate")
    )
    before, whole = plain.ids("It is un"), plain.ids("It is unbelievable")
    assert before[:-1] == whole[: len(before) - 1]
    assert before[-1] != whole[len(before) - 1]
    head = [0] if plain.has_bos else []
    assert row.logprob == pytest.approx(
        plain.score([*head, *whole], len(head + before) - 1), abs=NEAR
    )
    assert other.logprob == pytest.approx(
        plain.score([*head, *before, *plain.ids("believable")], len(head + before)), abs=NEAR
    )
    assert abs((row.logprob or 0.0) - (other.logprob or 0.0)) > NEAR
    assert json.loads(row.extra or "{}") == json.loads(other.extra or "{}") == {"spanning": True}


@pytest.mark.parametrize("limit", [64, 17, 1])
def test_windows_against_a_plain_forward_pass(plain: Plain, limit: int) -> None:
    draw = random.Random(5)
    texts = [
        "a",
        mixed(draw, 150, 200),
        *("".join(draw.choice("cdefg xyz") for _ in range(n)) for n in (63, 64, 65, 129)),
    ]
    texts = texts if limit > 1 else [text[:30] for text in texts]
    rows = rows_of(
        plain, [Rolling(str(i), text) for i, text in enumerate(texts)], max_model_len=limit
    )
    for i, text in enumerate(texts):
        row = rows[str(i), "rolling", 0, 0]
        logprob, n_tokens = plain.text(text, limit)
        assert row.logprob == pytest.approx(logprob, abs=2e-3)
        assert row.n_tokens == n_tokens


def test_the_template_is_applied_once_with_one_bos(plain: Plain) -> None:
    draw = random.Random(7)
    messages = (Message("system", "be"), Message("user", "Answer: un"))
    requests = [Loglikelihood("d", i, messages, mixed(draw, 1, 4)) for i in range(8)]
    rows = rows_of(plain, requests, chat="template", max_model_len=4000)
    before = plain.ids("<s>[system]be[user]Answer: un[assistant]")
    for request in requests:
        whole = plain.ids("<s>[system]be[user]Answer: un[assistant]" + request.continuation)
        assert (whole.count(0), whole[: len(before)]) == (1, before)
        assert rows[request.keys()[0]].logprob == pytest.approx(
            plain.score(whole, len(before)), abs=NEAR
        )


def test_a_bos_within_a_continuation_is_scored_at_both_borders(plain: Plain) -> None:
    """It starts no text there; without a context it is the start, once."""
    asked = Loglikelihood("d", 0, (Message("user", "Answer:"),), "<s>abc")
    values = [
        rows_of(plain, [asked], token_boundary=b)[asked.keys()[0]] for b in ("joint", "separate")
    ]
    assert {(row.n_tokens, row.logprob) for row in values} == {(2, values[0].logprob)}
    texts: list[Request] = [
        Loglikelihood(str(i), 0, (), text) for i, text in enumerate(("abc", "<s>abc"))
    ]
    texts += [Rolling(str(i), text) for i, text in enumerate(("abcabc", "<s>abcabc"), 2)]
    rows = list(rows_of(plain, sorted(texts, key=lambda request: request.doc_id)).values())
    found = {row.doc_id: (row.n_tokens, row.logprob) for row in rows}
    assert (found["0"], found["2"]) == (found["1"], found["3"])
    assert (found["0"][0], found["2"][0]) == (1, 2)


def test_very_long_choices_fail_alone_and_very_long_contexts_are_cut(plain: Plain) -> None:
    context = (Message("user", "x" * 100_000),)
    requests = [
        Loglikelihood("d", i, context, text)
        for i, text in enumerate((" A", "y" * 100_000, "\ud800"))
    ]
    rows = rows_of(plain, requests, max_model_len=64)
    assert [rows["d", "loglikelihood", i, 0].error_type for i in range(3)] == [
        None,
        "continuation_too_long",
        "TypeError",
    ]
    assert json.loads(rows["d", "loglikelihood", 0, 0].extra or "{}")["cut_tokens"] > 99_900


@pytest.mark.parametrize("value", ["false", "maybe", 1, None])
def test_the_switch_of_sharing_is_a_truth_value(plain: Plain, value: Any) -> None:
    with pytest.raises(Fault, match=r"model\.engine\.prefix_sharing must be true or false; got"):
        HfBackend(
            ModelPlan("m", "hf", path=str(plain.folder), engine=(("prefix_sharing", value),))
        ).start()


# ---- whole commands ------------------------------------------------------------------------------


Write = Callable[..., list[str]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a task of four questions and saved log-likelihoods; the words of a command that asks
    them.
    """

    def made(
        metrics: str = "loglikelihood_acc: {}",
        prompt: str = "template: '{{ query }}'",
        lost: int | None = None,
    ) -> list[str]:
        options = ["aa", "b", "ccc", "dddd"]
        questions = [{"q": f"Is {q}?", "o": options, "a": q % 4, "word": "x"} for q in range(4)]
        rows = [
            {"query": f"Is {q}?", "kind": kind, "index": i}
            | (
                {"status": "error", "error_type": "http"}
                if i == lost
                else {"logprob": -1.0 - (i + q) % 4, "n_tokens": 1}
            )
            for q in range(4)
            for kind in ("loglikelihood", "unconditioned")
            for i in range(4)
        ]
        (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / "mine" / "task").mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / "task" / "t.yaml").write_text(
            "# @package tasks.t\ndefaults: [/task_schema@_here_, _self_]\n"
            "dataset: {path: q.jsonl, columns: {query: q, choices: o, gold: a}}\n"
            f"prompt: {{{prompt}}}\nmetrics: {{{metrics}}}\n"
        )
        return ["--config-dir", "mine", "model=replay", "model.path=a.jsonl", "task=t"]

    return made


def test_one_lost_choice_of_each_document_is_no_quarter_of_an_error(
    evalrun: Evalrun, write: Write, tmp_path: Path
) -> None:
    """4 of 16 requests failed, but no document can be scored: 30 % of errors do not allow that,
    in any mode.
    """
    words = write(lost=3)
    ran = evalrun(*words, "max_error_rate=0.3")
    assert ran.code == 3
    said = (
        "4 of 16 requests failed and loglikelihood_acc lacks 4 of 4 documents, more than "
        "max_error_rate=0.3 allows"
    )
    assert said in ran.out
    assert evalrun("--mode", "infer", *words, "max_error_rate=0.3").code == 3
    assert evalrun("--mode", "infer", *words, "max_error_rate=1").code == 0


def test_unscored_documents_are_counted_among_documents(
    evalrun: Evalrun, write: Write, tmp_path: Path
) -> None:
    """A choice is two tokens long: the metric of single tokens can score nothing, whatever the
    number of choices.
    """
    words = write()
    saved = (tmp_path / "a.jsonl").read_text()
    (tmp_path / "a.jsonl").write_text(saved.replace('"n_tokens": 1', '"n_tokens": 2'))
    ran = evalrun(*words, "metric=loglikelihood_acc_single_token", "max_error_rate=0.3")
    assert ran.code == 3
    assert "4 of 4 samples could not be scored, more than max_error_rate=0.3 allows" in ran.out


@pytest.mark.parametrize(
    "prompt",
    [
        "template: '{{ query }}', continuation: ' {{ word }}'",
        "template: '{{ query }}', continuation: ' '",
        "context: '{{ query }}', continuation: ' {{ choices[0] }}'",
    ],
)
def test_choices_that_ask_the_same_are_refused(
    evalrun: Evalrun, write: Write, prompt: str, tmp_path: Path
) -> None:
    ran = evalrun(*write(prompt=prompt))
    assert ran.code == 2
    assert "prompt.continuation is the same for all 4 choices of document" in ran.err
    assert "Name one of choice, letter, index" in ran.err
    assert not (tmp_path / "outputs").exists()


def test_choices_told_apart_by_their_context_alone_are_asked(
    evalrun: Evalrun, write: Write
) -> None:
    ran = evalrun(
        "--dry-run", *write(prompt="context: '{{ query }} {{ choice }}', continuation: ' x'")
    )
    assert ran.code == 0, ran.err
    assert re.findall(r'"(Is 0\? .*?)"', ran.out) == [
        "Is 0? aa",
        "Is 0? b",
        "Is 0? ccc",
        "Is 0? dddd",
    ]
    assert ran.out.count(": ' x'") == 4


def test_a_dry_run_says_what_concerns_log_likelihoods(
    evalrun: Evalrun, write: Write, tmp_path: Path
) -> None:
    words = write()
    text = (tmp_path / "q.jsonl").read_text().replace('"dddd"', json.dumps("d" * 100_000))
    (tmp_path / "q.jsonl").write_text(text)
    ran = evalrun("--dry-run", *words)
    assert ran.code == 0, ran.err
    assert "continuation 2: ' ccc'" in ran.out
    assert f"continuation 3: ' {'d' * 999}'... (100001 characters)" in ran.out
    assert not any(word in ran.out for word in ("temperature", "max_tokens", "scorer"))
    assert "temperature  0" in evalrun("--dry-run", *words, "metric=[exact_match,mrr]").out


def test_samples_of_the_task_string_are_told_not_to_apply(evalrun: Evalrun, write: Write) -> None:
    words = write()
    ran = evalrun(*words[:-1], "task=t@k=2&n=4")
    assert ran.code == 0, ran.err
    assert (
        "k=2 and n=4 draw samples; log-probabilities are asked once per choice or text" in ran.out
    )


def test_eval_of_texts_that_were_never_asked_says_so_whatever_n(
    evalrun: Evalrun, write: Write
) -> None:
    assert evalrun("--mode", "infer", *write()).code == 0
    ran = evalrun(
        "--mode", "eval", "--reuse", "latest", "metric=exact_match", "num_return_sequences=2"
    )
    assert ran.code == 2
    assert "exact_match reads requests of kind generate" in ran.err
    assert "Ask for them with --resume metric=exact_match" in ran.err


def test_missing_choices_of_both_kinds_are_told_apart(
    evalrun: Evalrun, write: Write, tmp_path: Path
) -> None:
    words = write("acc_norm_pmi: {}")
    assert evalrun("--mode", "infer", *words, "+model.engine.die_after=7").code == 3
    (run,) = run_folders(tmp_path)
    ran = evalrun("--mode", "eval", "--reuse", str(run))
    assert ran.code == 2
    assert "wants 32 rows (4 documents, loglikelihood and unconditioned) and holds 7" in ran.err
    assert "unconditioned choice 3" in ran.err


def test_remarks_name_the_metric_that_they_are_about(
    evalrun: Evalrun, write: Write, tmp_path: Path
) -> None:
    """Without the question, PMI has nothing but ties; the likelihoods themselves have none."""
    words = write("loglikelihood_acc: {}, acc_norm_pmi: {}")
    ran = evalrun(*words)
    assert ran.code == 0, ran.err
    tied = "task t: 4 of 4 documents have equally likely best choices; the lower index was taken"
    assert f"{tied} (acc_norm_pmi)" in ran.out
    alone = evalrun(*words, "metric=acc_norm_pmi")
    assert f"{tied}.\n" in alone.out
