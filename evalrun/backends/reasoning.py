"""Thoughts that a model writes into its text: which tags hold them, and where the answer begins.

Tags, with the models that write them: <think> (DeepSeek-R1, Qwen3, GLM, MiMo and most others),
<thinking>, <seed:think> (Seed-OSS), <mm:think>, [THINK] (Magistral), <|START_THINKING|> (Command
A), <|begin_of_thought|> (Sky-T1, OpenThinker), ◁think▷ (Kimi-VL), and the channels of Harmony
(gpt-oss). model.reasoning_tags adds others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from evalrun.errors import Fault, visible


class Tag(NamedTuple):
    """What stands before and after a thought."""

    opening: str
    closing: str


TAGS = (
    Tag("<think>", "</think>"),
    Tag("<thinking>", "</thinking>"),
    Tag("<seed:think>", "</seed:think>"),
    Tag("<mm:think>", "</mm:think>"),
    Tag("[THINK]", "[/THINK]"),
    Tag("<|START_THINKING|>", "<|END_THINKING|>"),
    Tag("<|begin_of_thought|>", "<|end_of_thought|>"),
    Tag("◁think▷", "◁/think▷"),
)

_FORMS = (
    ("<", "</"),
    ("[", "[/"),
)  # how a closing tag is made of an opening one

# A message of Harmony: its channel, and its text up to the next special token
# (https://cookbook.openai.com/articles/openai-harmony).
_CHANNEL = re.compile(
    r"<\|channel\|>\s*(?P<channel>[a-z]+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r"(?P<text>.*?)(?=<\|(?:end|return|call|start|channel)\|>|\Z)",
    re.DOTALL,
)
_HARMONY_STARTS = ("<|channel|>", "<|start|>assistant")
# The same where the engine has dropped the special tokens: analysis...assistantfinal...
_BARE_HARMONY = re.compile(r"analysis(?=[A-Z\"'(*])(?P<thought>.*)", re.DOTALL)
_BARE_FINAL = "assistantfinal"
_BARE_TURN = re.compile(r"assistant(?:analysis|commentary)(?=[A-Z\"'(*])")


def tags_of(more: Iterable[str]) -> tuple[Tag, ...]:
    """All tags: those of model.reasoning_tags first, then ours.

    Args:
        more: "OPENING CLOSING" each, or "<NAME>" or "[NAME]" alone, whose closing tag is </NAME> or
            [/NAME].

    Fault for a text that names no closing tag.
    """
    return (*map(_tag, more), *TAGS)


def _tag(text: str) -> Tag:
    words = text.split()
    if len(words) == 2 and words[0] != words[1]:
        return Tag(*words)
    if len(words) == 1:
        for start, closing in _FORMS:
            if text.startswith(start) and not text.startswith(closing) and len(text) > 2:
                return Tag(words[0], closing + words[0][1:])
    raise Fault(
        f"model.reasoning_tags: {visible(text)!r} names no pair of tags. Allowed: an opening and a "
        "closing tag with a blank between them ('<plan> </plan>'), or '<NAME>' or '[NAME]' alone."
    )


def opens_thought(prompt: str, tags: tuple[Tag, ...] = TAGS) -> bool:
    """Whether a prompt ends inside a thought, which the answer then goes on with."""
    return prompt.rstrip().endswith(tuple(tag.opening for tag in tags))


def split_reasoning(
    text: str, is_open: bool = False, tags: tuple[Tag, ...] = TAGS
) -> tuple[str | None, str | None]:
    """(reasoning, answer) of a text that may begin with a thought; (None, text) where it does not.

    A thought is there where the text begins with an opening tag, where the prompt ended with one,
    or where a closing tag stands before any opening one of its kind. The answer begins after the
    last closing tag. A thought that never ends has no answer: (reasoning, None).

    Args:
        text: as the model wrote it.
        is_open: the prompt ended with an opening tag.
        tags: the pairs that are known.
    """
    start = text.lstrip()
    if start.startswith(_HARMONY_STARTS):
        return _split_harmony(start)
    if (bare := _BARE_HARMONY.match(start)) is not None:
        return _split_bare_harmony(bare["thought"])
    opened = [tag for tag in tags if start.startswith(tag.opening)]
    if opened:
        tag = max(opened, key=lambda each: len(each.opening))
        return _cut(start[len(tag.opening) :], tag)
    closed = [(place, tag) for tag in tags if (place := _close(text, tag, is_open)) is not None]
    if closed:
        return _cut(text, min(closed)[1])
    return (text.strip(), None) if is_open else (None, text)


def _close(text: str, tag: Tag, is_open: bool) -> int | None:
    """Where the closing tag of an open thought stands; None: the text closes none.

    In an answer whose prompt did not open a thought, one behind an opening tag is a quotation.
    """
    place = text.find(tag.closing)
    is_closing = place >= 0 and (is_open or tag.opening not in text[:place])
    return place if is_closing else None


def _cut(body: str, tag: Tag) -> tuple[str, str | None]:
    thought, closed, answer = body.rpartition(tag.closing)
    return (thought.strip(), answer.lstrip("\n")) if closed else (body.strip(), None)


def _split_harmony(text: str) -> tuple[str | None, str | None]:
    """The channel `final` is the answer, every other one is thought."""
    thoughts: list[str] = []
    answer: str | None = None
    for message in _CHANNEL.finditer(text):
        if message["channel"] == "final":
            answer = message["text"]
        else:
            thoughts.append(message["text"].strip())
    return "\n".join(filter(None, thoughts)) or None, answer


def _split_bare_harmony(body: str) -> tuple[str, str | None]:
    thought, ended, answer = body.rpartition(_BARE_FINAL)
    if not ended:
        thought = body
    return _BARE_TURN.sub("\n", thought).strip(), answer if ended else None
