"""Thoughts inside a text: tags of many models, open and never-ending ones, channels of Harmony;
stop strings behind blank lines.
"""

from __future__ import annotations

import pytest
from support import tiny_model

from evalrun.backends.base import answered, cut_answer
from evalrun.backends.hf.token_draws import Ends
from evalrun.backends.local.prompts import renderer_for
from evalrun.backends.reasoning import TAGS, Tag, opens_thought, split_reasoning, tags_of
from evalrun.errors import Fault
from evalrun.types import Message, ModelPlan, Reply

BASE = Reply("d", "generate", 0)

SPLITS: list[tuple[str, tuple[str | None, str | None]]] = [
    ("The answer is 4.", (None, "The answer is 4.")),
    ("<think>hm</think>4", ("hm", "4")),
    ("\n<think>\nhm\n</think>\n\n4", ("hm", "4")),
    ("hm</think>4", ("hm", "4")),
    ("<think>hm, 4", ("hm, 4", None)),
    ("Write <think> and </think> tags.", (None, "Write <think> and </think> tags.")),
    ("<thinking>hm</thinking>\n4", ("hm", "4")),
    ("<seed:think>hm</seed:think>4", ("hm", "4")),
    ("<mm:think>hm</mm:think>4", ("hm", "4")),
    ("[THINK]hm[/THINK]4", ("hm", "4")),
    ("hm[/THINK]4", ("hm", "4")),
    ("[THINK]hm", ("hm", None)),
    ("<|START_THINKING|>hm<|END_THINKING|>4", ("hm", "4")),
    ("◁think▷hm◁/think▷4", ("hm", "4")),
    ("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>4"
     "<|return|>", ("hm", "4")),
    ("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=x "
     "<|constrain|>json<|message|>{}<|call|><|start|>assistant<|channel|>final<|message|>4",
     ("hm\n{}", "4")),
    ("<|channel|>analysis<|message|>hm, 4", ("hm, 4", None)),
    ("<|channel|>final<|message|>4<|return|>", (None, "4")),
    ("<|start|>assistant<|channel|>final<|message|>4", (None, "4")),
    ("analysisWe need 4.assistantfinalThe answer is 4.", ("We need 4.", "The answer is 4.")),
    ("analysisWe add.assistantcommentaryA call.assistantfinal4", ("We add.\nA call.", "4")),
    ("analysisWe need to", ("We need to", None)),
    ("analysis of variance", (None, "analysis of variance")),
    ("", (None, "")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SPLITS)
def test_where_a_thought_ends(text: str, expected: tuple[str | None, str | None]) -> None:
    assert split_reasoning(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hm</think>4", ("hm", "4")),
        ("hm <think> hm</think>4", ("hm <think> hm", "4")),
        ("hm</seed:think>4", ("hm", "4")),
        ("hm, so 4", ("hm, so 4", None)),
    ],
)
def test_a_thought_that_the_prompt_opened(
    text: str, expected: tuple[str | None, str | None]
) -> None:
    assert split_reasoning(text, is_open=True) == expected


def test_a_thought_that_never_ends_is_no_answer() -> None:
    row = answered(BASE, "<thinking>The answer is 4", finish_reason="stop")
    assert (row.status, row.text, row.reasoning) == ("empty", None, "The answer is 4")
    row = answered(BASE, "[THINK]The answer is 4", finish_reason="length")
    assert (row.status, row.text) == ("truncated", None)


@pytest.mark.parametrize("field", [None, "", " \n"])
def test_an_empty_field_of_the_server_does_not_switch_the_split_off(field: str | None) -> None:
    row = answered(BASE, "<think>hm</think>4", reasoning=field, finish_reason="stop")
    assert (row.status, row.text, row.reasoning) == ("ok", "4", "hm")
    assert row.raw_text == "<think>hm</think>4"


def test_own_tags() -> None:
    tags = tags_of(("<plan>", "[PLAN]", "BEGIN END"))
    assert tags[:3] == (Tag("<plan>", "</plan>"), Tag("[PLAN]", "[/PLAN]"), Tag("BEGIN", "END"))
    assert tags[3:] == TAGS
    assert split_reasoning("<plan>hm</plan>4", tags=tags) == ("hm", "4")
    assert split_reasoning("BEGIN hm END4", tags=tags) == ("hm", "4")
    assert split_reasoning("<plan>hm</plan>4") == (None, "<plan>hm</plan>4")


@pytest.mark.parametrize("text", ["plan", "a b c", "</plan>", "<", "x x", ""])
def test_tags_that_are_none(text: str) -> None:
    with pytest.raises(Fault, match=r"model\.reasoning_tags: .* names no pair of tags"):
        tags_of((text,))


def test_a_template_may_open_a_thought() -> None:
    assert opens_thought("assistant\n<think>\n")
    assert not opens_thought("assistant\n<think>\n\n</think>\n\n")
    template = (
        "{% for m in messages %}{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}{{ ' <plan>' }}{% endif %}"
    )
    messages = (Message("user", "w1"),)
    tokenizer = tiny_model.tokenizer(template)
    plain = renderer_for(ModelPlan("m", "hf"), tokenizer)
    own = renderer_for(ModelPlan("m", "hf", reasoning_tags=("<plan>",)), tokenizer)
    assert (plain.prompt(messages).is_open, own.prompt(messages).is_open) == (False, True)


# ---- stop strings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ("\n\nB\n\nQ", ("\n\n",), ("B", True)),
        (" \n\nB", ("\n\n",), ("B", False)),
        ("B\n\nQ", ("\n\n",), ("B", True)),
        ("\n\nB. x", ("x",), ("\n\nB. ", True)),  # untouched where no stop is in the blank lines
        ("\n\nB", ("Q",), ("\n\nB", False)),
        ("\n\n", ("\n\n",), ("", False)),
        ("Question: x", ("Question:",), ("", True)),
        ("\n\nQuestion: x", ("\n\n", "Question:"), ("", True)),
        ("B", (), ("B", False)),
    ],
)
def test_stops_count_from_the_first_line_that_is_not_blank(
    text: str, stop: tuple[str, ...], expected: tuple[str, bool]
) -> None:
    assert cut_answer(text, stop) == expected


def test_a_truncated_answer_whose_stop_string_came_first_is_whole() -> None:
    row = answered(BASE, "\n\n4\n\nQ: 5", stop=("\n\n",), finish_reason="length")
    assert (row.status, row.text, row.raw_text) == ("ok", "4", "\n\n4\n\nQ: 5")


@pytest.mark.parametrize(
    ("pieces", "stop", "n"),
    [
        (("\n", "\n", "B", "\n", "\n", "Q"), ("\n\n",), 5),
        (("\n\n", "B", "\n\n", "Q"), ("\n\n",), 3),
        (("\n\nB", ".", "\n\n", "Q"), ("\n\n",), 3),
        (("B", "\n\n", "Q"), ("\n\n",), 2),
        (("\n\n", "Stop", "x"), ("Stop",), 2),
        ((*["\n"] * 30, "B", "\n", "\n"), ("\n\n",), 33),
    ],
)
def test_the_local_engine_stops_by_the_same_rule(
    pieces: tuple[str, ...], stop: tuple[str, ...], n: int
) -> None:
    torch = pytest.importorskip("torch")
    from evalrun.backends.cancelling import Cancellation

    def decode(ids: list[int], **options: bool) -> str:
        return "".join(pieces[i] for i in ids)

    ends = Ends(0, 1, frozenset(), stop, decode, Cancellation())
    for length in range(1, len(pieces) + 1):
        ends(torch.tensor([list(range(length))]), None)
    assert ends.lengths == [n]
