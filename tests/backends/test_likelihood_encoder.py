"""Log-likelihood requests as spans of tokens: the border of context and continuation, BOS,
limits, windows, rows.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import tiny_model

from evalrun.backends.loglikelihood.encoder import Encoder, Item, context_renderer, shown
from evalrun.backends.loglikelihood.pending_rows import PendingRows, blocks
from evalrun.backends.loglikelihood.spans import Score, Span, split, windows
from evalrun.types import Generate, Loglikelihood, Message, ModelPlan, Reply, Rolling, Sampling


class Letters:
    """A tokenizer of single characters in which some pairs are one token; bos: what it puts
    before every text.
    """

    def __init__(
        self, *pairs: str, bos: bool = False, bos_id: int | None = None, eos_id: int | None = None
    ) -> None:
        self.pairs, self.has_bos = pairs, bos
        self.bos_token_id, self.eos_token_id = (1 if bos else bos_id), eos_id
        self.chat_template = None
        self.n_calls = 0

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        self.n_calls += 1
        ids = [1] if add_special_tokens and self.has_bos else []
        while text:
            if text.startswith("<s>"):
                head, token = "<s>", 1
            elif head := next((pair for pair in self.pairs if text.startswith(pair)), ""):
                token = 1000 + self.pairs.index(head)
            else:
                head, token = text[0], ord(text[0])
            ids.append(token)
            text = text[len(head) :]
        return ids

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return ["<s>" if token == 1 else chr(token) for token in ids]

    def text(self, ids: tuple[int, ...]) -> str:
        """The tokens as text again; BOS as ^."""
        return "".join(
            "^" if token == 1 else self.pairs[token - 1000] if token >= 1000 else chr(token)
            for token in ids
        )


def model(**keys: Any) -> ModelPlan:
    return ModelPlan("m", "hf", path="p", **keys)


def ask(context: str, continuation: str, **keys: Any) -> Loglikelihood:
    messages = (Message("user", context),) if context else ()
    return Loglikelihood("d", keys.pop("index", 0), messages, continuation, **keys)


def span_of(
    tokenizer: Letters, request: Any, most: int | None = None, **keys: Any
) -> tuple[str, str, Reply]:
    """(what is given, what is scored, the row) of a request with one span."""
    item = Encoder(model(**keys), tokenizer, most).ready(request)
    assert isinstance(item, Item), item
    (span,) = item.spans
    assert item.row.n_tokens == span.n_scored
    return tokenizer.text(span.ids[: span.start]), tokenizer.text(span.ids[span.start :]), item.row


@pytest.mark.parametrize(
    ("context", "continuation", "given", "scored"),
    [
        ("2+2?", " 4", "2+2?", " 4"),
        ("Question: 2+2?\nAnswer: ", "4", "Question: 2+2?\nAnswer:", " 4"),  # BK-003
        ("a \n\t", "b", "a", " \n\tb"),
        ("", "ab", "^", "ab"),
        ("  ", "b", "^", "  b"),
    ],
)
@pytest.mark.parametrize("boundary", ["joint", "separate"])
def test_blanks_at_the_border_are_scored(
    context: str, continuation: str, given: str, scored: str, boundary: str
) -> None:
    found = span_of(Letters(bos_id=1), ask(context, continuation), token_boundary=boundary)
    assert found[:2] == (given, scored)
    assert found[2].extra is None


@pytest.mark.parametrize(
    ("boundary", "given", "scored"),
    [("joint", "a", "bcd"), ("separate", "ab", "cd")],
)
def test_a_token_that_spans_the_border(boundary: str, given: str, scored: str) -> None:
    """`bc` is one token of the joined text: joint scores from there on, separate cuts between."""
    found = span_of(Letters("bc"), ask("ab", "cd"), token_boundary=boundary)
    assert found[:2] == (given, scored)
    assert json.loads(found[2].extra or "") == {"spanning": True}
    assert found[2].n_tokens == 2


def test_a_spanning_first_token_stands_after_bos() -> None:
    given, scored, _ = span_of(Letters("ab", bos_id=1), ask("a", "bc"))
    assert (given, scored) == ("^", "abc")


@pytest.mark.parametrize("context", ["ab", "<s>ab"])
def test_exactly_one_bos(context: str) -> None:
    given, scored, row = span_of(Letters(bos=True), ask(context, " c"))
    assert (given, scored, row.prompt_tokens) == ("^ab", " c", 3)
    assert span_of(Letters(bos=True), ask("", "<s>ab"))[:2] == ("^", "ab")
    assert span_of(Letters(bos=True), Rolling("d", "<s>ab"))[:2] == ("^", "ab")


@pytest.mark.parametrize(
    ("tokenizer", "start"), [(Letters(bos=True), 1), (Letters(bos_id=7), 7), (Letters(eos_id=9), 9)]
)
def test_first_token_stands_after_bos_else_eos(tokenizer: Letters, start: int) -> None:
    item = Encoder(model(), tokenizer, None).ready(Rolling("d", "ab"))
    assert isinstance(item, Item)
    assert item.spans == (Span((start, 97, 98), 1),)
    assert (item.row.n_tokens, item.row.prompt_tokens) == (2, 0)


@pytest.mark.parametrize(
    ("request_", "error_type", "said"),
    [
        (ask("a", "", index=2), "empty_continuation", "choice 2 has an empty continuation"),
        (
            ask("a", "bc", index=1, is_single_token=True),
            "not_one_token",
            "choice 1 ('bc') must be one token",
        ),
        (
            ask("abcdefgh", "x" * 7),
            "continuation_too_long",
            "choice 0 has 7 tokens, more than the model takes (6",
        ),
        (ask("", "a"), "no_start_token", "neither BOS nor EOS"),
        (Rolling("d", ""), "empty_text", "has no tokens"),
        (Rolling("d", "a"), "no_start_token", "neither BOS nor EOS"),
    ],
)
def test_what_cannot_be_asked_is_a_row(request_: Any, error_type: str, said: str) -> None:
    row = Encoder(model(), Letters(), 6).ready(request_)
    assert isinstance(row, Reply)
    assert row.key == request_.keys()[0]
    assert (row.status, row.error_type, row.logprob) == ("error", error_type, None)
    assert said in str(row.error_message)


def test_a_choice_of_several_tokens_names_its_ids() -> None:
    row = Encoder(model(), Letters(), None).ready(ask("a", "bc", is_single_token=True))
    assert isinstance(row, Reply)
    assert "ids [98, 99]" in str(row.error_message)


@pytest.mark.parametrize(
    ("tokenizer", "given", "n_cut"),
    [
        (Letters(), "fgh", 5),
        (Letters(bos=True), "^gh", 6),
        (Letters(bos_id=97), "agh", 5),  # the text itself begins with BOS
    ],
)
def test_contexts_are_cut_from_the_left_behind_bos(
    tokenizer: Letters, given: str, n_cut: int
) -> None:
    found = span_of(tokenizer, ask("abcdefgh", " x"), most=5)
    assert found[:2] == (given, " x")
    assert json.loads(found[2].extra or "") == {"cut_tokens": n_cut}
    assert found[2].prompt_tokens == 3
    assert span_of(tokenizer, ask("abcdefgh", " x"), most=11)[2].extra is None


def test_template_only_where_it_is_asked_for() -> None:
    words = tiny_model.tokenizer()
    raw, templated = (
        Encoder(model(chat=chat), words, None).ready(ask("w1", " w2"))
        for chat in ("auto", "template")
    )
    assert isinstance(raw, Item)
    assert isinstance(templated, Item)
    assert words.convert_ids_to_tokens(raw.spans[0].ids) == ["<s>", "w1", "w2"]
    assert words.convert_ids_to_tokens(templated.spans[0].ids) == [
        "<s>",
        "user",
        "w1",
        "assistant",
        "w2",
    ]
    refused = Encoder(model(chat="template"), words, None).ready(
        Loglikelihood("d", 0, (Message("system", "refuse"),), " w2")
    )
    assert isinstance(refused, Reply)
    assert refused.error_type == "template_error"


def test_a_context_is_tokenized_once_for_its_choices() -> None:
    tokenizer = Letters()
    encoder = Encoder(model(token_boundary="joint"), tokenizer, None)
    before = tokenizer.n_calls
    for i in range(5):
        encoder.ready(ask("".join(["a", "b "]), "c", index=i))
    assert tokenizer.n_calls - before == 1 + 5


def test_what_is_shown() -> None:
    chat = context_renderer(model(), Letters(bos=True))
    two = Loglikelihood("d", 0, (Message("system", "a"), Message("user", "b")), " c")
    assert shown(chat, two) == "<s>a\n\nb"
    assert shown(chat, ask("", "c")) == ""
    assert shown(chat, Rolling("d", "text")) == "text"


@given(
    st.lists(st.integers(5, 9), min_size=1, max_size=40).map(tuple),
    st.integers(3, 12),
    st.integers(1, 2),
)
def test_windows_score_every_token_once(tokens: tuple[int, ...], most: int, n_head: int) -> None:
    head = (1, 2)[:n_head]
    spans, done = windows(head, tokens, most), 0
    for i, span in enumerate(spans):
        assert 1 <= span.start < len(span.ids) <= most
        assert span.ids[span.start :] == tokens[done : done + span.n_scored]
        done += span.n_scored
        assert span.ids[: span.start] == (
            head if i == 0 else tokens[done - len(span.ids) : done - span.n_scored]
        )
    assert done == len(tokens)
    if len(spans) > 1:
        assert all(len(span.ids) == min(most, len(tokens)) for span in spans[1:]), (
            "the last keeps earlier tokens"
        )


@pytest.mark.parametrize(
    ("n", "most", "want"),
    [
        (4, 5, [((1, 10, 11, 12, 13), 1)]),
        (5, 5, [((1, 10, 11, 12, 13), 1), ((10, 11, 12, 13, 14), 4)]),
        (10, 5, [((1, 10, 11, 12, 13), 1), ((13, 14, 15, 16, 17), 1), ((15, 16, 17, 18, 19), 3)]),
        (3, None, [((1, 10, 11, 12), 1)]),
    ],
)
def test_windows_as_the_harness_makes_them(n: int, most: int | None, want: list[Any]) -> None:
    """get_rolling_token_windows with max_seq_len = most - 1 and context_len 1."""
    assert [
        (span.ids, span.start) for span in windows((1,), tuple(range(10, 10 + n)), most)
    ] == want


def test_no_room_for_a_window() -> None:
    row = Encoder(model(), Letters(bos=True), 1).ready(Rolling("d", "ab"))
    assert isinstance(row, Reply)
    assert row.error_type == "context_too_short"


def reply(doc_id: str) -> Reply:
    return Reply(doc_id, "loglikelihood", 0)


A, B, C = Span((1, 2), 1), Span((1, 3), 1), Span((1, 4), 1)


def test_pending_sums_and_hands_out_at_once() -> None:
    rows: list[Reply] = []
    pending = PendingRows([Item(reply("long"), (A, B, A)), Item(reply("short"), (B,))], rows.append)
    assert pending.spans == (A, B)
    pending.put(B, Score(-2.0, False))
    assert [(row.doc_id, row.logprob, row.is_greedy) for row in rows] == [("short", -2.0, False)]
    pending.put(A, Score(-1.0, True))
    assert (rows[1].doc_id, rows[1].logprob, rows[1].is_greedy) == ("long", -4.0, False)
    assert pending.spans == ()


def test_pending_fails_a_row_once() -> None:
    rows: list[Reply] = []
    pending = PendingRows([Item(reply("x"), (A, B, A, C)), Item(reply("y"), (C,))], rows.append)
    pending.fail(A, "odd", "why")
    pending.put(B, Score(-2.0, False))
    pending.fail(C, "odd", "why not")
    assert [(row.doc_id, row.error_type, row.error_message) for row in rows] == [
        ("x", "odd", "why"),
        ("y", "odd", "why not"),
    ]


def test_blocks_keep_documents_together_and_know_what_was_scored() -> None:
    rows: list[Reply] = []
    encoder = Encoder(model(), Letters(), None)
    asked = [
        Loglikelihood(f"d{i // 2}", i % 2, (Message("user", "ab"),), " xy"[: 2 + i % 2])
        for i in range(8)
    ]
    seen = []
    for pending in blocks(encoder, [*asked, ask("a", "")], rows.append, 1):
        seen.append(pending.spans)
        for span in pending.spans:
            pending.put(span, Score(-float(len(span.ids)), True))
    assert [len(spans) for spans in seen] == [2, 0, 0, 0]
    assert [row.logprob for row in rows if row.error_type is None] == [-4.0, -5.0] * 4
    assert len(rows) == 9


def test_split_by_kind() -> None:
    text = Generate("d", (), (0,), Sampling(1, 0.0), 0)
    score, roll = ask("a", "b"), Rolling("d", "t")
    assert split([score, text, roll]) == ([text], [score, roll])
