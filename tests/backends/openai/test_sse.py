"""The event-stream parser and the assembly of deltas: tables of streams, each cut at every byte
boundary.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.workspace import ROOT

from evalrun.backends.openai.http.retry import AttemptFailed
from evalrun.backends.openai.replies.body import StreamReader
from evalrun.backends.openai.replies.error_objects import error_text, whole
from evalrun.backends.openai.replies.sse import Event, EventParser
from evalrun.backends.openai.replies.stream import ChatStream
from evalrun.types import Status

CASES = {
    row["id"]: row
    for row in map(
        json.loads, (ROOT / "tests" / "cases" / "sse.jsonl").read_text("utf-8").splitlines()
    )
}

STREAMS = {
    "lf": (b"data: a\n\ndata: b\n\n", ["a", "b"]),
    "crlf": (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
    "cr": (b"data: a\r\rdata: b\r\r", ["a", "b"]),
    "mixed": (b"data: a\r\n\ndata: b\r\r\ndata: c\n\r\n", ["a", "b", "c"]),
    "no space": (b"data:a\n\n", ["a"]),
    "only one space is dropped": (b"data:  a \n\n", [" a "]),
    "comment": (b": hi\n\n:\ndata: a\n: more\n\n", ["a"]),
    "several data lines": (b"data: a\ndata: b\ndata:\ndata: c\n\n", ["a\nb\n\nc"]),
    "field without colon": (b"data\n\ndata\ndata\n\n", ["", "\n"]),
    "id and retry": (b"id: 7\nretry: 10\ndata: a\n\nid: 8\n\n", ["a"]),
    "unknown field": (b"datax: 1\nDATA: 2\n data: 3\ndata: a\n\n", ["a"]),
    "bom": (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
    "bom inside": (b"data: \xef\xbb\xbfa\n\n", ["\ufeffa"]),
    "two boms": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", ["b"]),
    "u2028 and u0085 are text": ("data: a\u2028b\u0085c\n\n".encode(), ["a\u2028b\u0085c"]),
    "utf-8": ("data: 北京 ✅ 🧮\n\n".encode(), ["北京 ✅ 🧮"]),
    "broken utf-8": (b"data: a\xffb\n\n", ["a\ufffdb"]),
    "never ended": (b"data: a\n\ndata: b\n", ["a"]),
    "vertical tab": (b"data: a\x0bb\x0cc\n\n", ["a\x0bb\x0cc"]),
    "empty": (b"", []),
}


def events_of(pieces: list[bytes]) -> list[Event]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def chat_of(pieces: list[bytes]) -> ChatStream:
    stream = ChatStream()
    reader = StreamReader(stream, 1)
    for piece in pieces:
        reader.feed(piece)
    return stream


@pytest.mark.parametrize("name", STREAMS)
def test_events_wherever_the_bytes_are_cut(name: str) -> None:
    stream, expected = STREAMS[name]
    assert [event.data for event in events_of([stream])] == expected
    assert [event.data for event in events_of([bytes([b]) for b in stream])] == expected
    for i in range(len(stream) + 1):
        for j in range(i, len(stream) + 1):
            assert [
                e.data for e in events_of([stream[:i], stream[i:j], b"", stream[j:]])
            ] == expected, (i, j)


LINES = [
    (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
    (b"data: a\n\n", [b"a"]),
    (b"data: \n\n", [b""]),
    (b"data: a\n\ndata: b\n", None),
    (b"data: a\ndata: b\n\n", None),
    (b"data: a\n\n: c\n\n", None),
    (b"data: a\n\nevent: e\ndata: b\n\n", None),
    (b"data: a\n\n\ndata: b\n\n", None),
    (b"data: a\r\n\r\n", None),
    (b"data: a\rb\n\n", None),
    (b"data:a\n\n", None),
    (b"\xef\xbb\xbfdata: a\n\n", None),
    (b"", None),
]


@pytest.mark.parametrize(("chunk", "lines"), LINES)
def test_plain_events_are_read_at_once(chunk: bytes, lines: list[bytes] | None) -> None:
    assert EventParser().lines_of(chunk) == lines


def test_plain_events_are_not_read_inside_others() -> None:
    for before in (b"data: x", b"data: x\n", b"event: e\n", b": comment"):
        parser = EventParser()
        assert parser.feed(before) == []
        assert parser.lines_of(b"data: a\n\n") is None
    parser = EventParser()
    assert [event.data for event in parser.feed(b"data: x\r")] == []
    assert parser.lines_of(b"data: a\n\n") is None


def test_names_of_events() -> None:
    stream = (
        b"event: error\ndata: a\n\ndata: b\n\nevent: x\n\ndata: c\n\nevent:y\ndata: d\nevent\n\n"
    )
    assert events_of([stream]) == [
        ("a", "error"),
        ("b", "message"),
        ("c", "message"),
        ("d", "message"),
    ]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [b"data: a", b"data:b", b"data", b":c", b"event: e", b"\n", b"\r", b"\r\n", b"\xc3\xa9"]
        )
    ),
    st.lists(st.integers(0, 60)),
)
def test_any_cutting_gives_equal_events(parts: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(parts)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(places)]
    assert events_of(pieces) == events_of([stream])


def test_a_long_line_in_many_pieces_is_joined_once() -> None:
    data = "x" * 2_000_000
    stream = b"data: " + data.encode() + b"\n\n"
    pieces = [stream[i : i + 1000] for i in range(0, len(stream), 1000)]
    assert [event.data for event in events_of(pieces)] == [data]


@pytest.mark.parametrize("case_id", [i for i, row in CASES.items() if "stream" in row["input"]])
def test_public_cases(case_id: str) -> None:
    row = CASES[case_id]
    stream, expected = row["input"]["stream"].encode("utf-8", "surrogatepass"), row["expected"]
    for pieces in ([stream], [bytes([b]) for b in stream]):
        chat = chat_of(pieces)
        if expected.get("complete") is False:
            with pytest.raises(AttemptFailed) as caught:
                chat.require_complete()
            assert caught.value.status == Status.INCOMPLETE
            assert not caught.value.is_final
            continue
        texts = expected.get("texts", [expected.get("text")])
        assert [chat.require_complete(i).text for i in range(len(texts))] == texts
        if "finish_reason" in expected:
            assert chat.choices[0].finish_reason == expected["finish_reason"]
        if "reasoning" in expected:
            assert chat.choices[0].reasoning == expected["reasoning"]
        for key, value in expected.get("usage", {}).items():
            assert chat.usage[key] == value


def test_utf8_cut_between_packets() -> None:
    row = CASES["AP-002"]
    chat = chat_of([bytes.fromhex(piece) for piece in row["input"]["chunks_hex"]])
    assert chat.require_complete().text == row["expected"]["text"]


def event(chunk: Any, name: str = "message") -> Event:
    return Event(chunk if isinstance(chunk, str) else json.dumps(chunk), name)


ERRORS = [
    # what comes inside the stream, its message, whether it is final
    ({"error": {"message": "engine died", "code": 500}}, "engine died", False),
    ({"error": {"message": "slow down", "code": "429"}}, "slow down", False),
    ({"error": {"message": "too long", "code": 400}}, "too long", True),
    (
        {
            "error": {
                "message": "too long",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
        "too long",
        True,
    ),
    ({"error": {"message": "oops", "type": "server_error", "code": None}}, "oops", False),
    ({"error": "plain text"}, "plain text", False),
    ({"object": "error", "message": "bad", "code": 404}, "bad", True),
    ({"error": {"detail": {"msg": "deep"}}}, "deep", False),
]


@pytest.mark.parametrize(("chunk", "message", "is_final"), ERRORS)
def test_errors_inside_a_stream(chunk: Any, message: str, is_final: bool) -> None:
    stream = ChatStream()
    stream.take(event({"choices": [{"index": 0, "delta": {"content": "half"}}]}))
    with pytest.raises(AttemptFailed) as caught:
        stream.take(event(chunk))
    assert (caught.value.message, caught.value.is_final) == (message, is_final)
    assert caught.value.error_type == "error_event"


def test_an_event_named_error_is_one_whatever_it_holds() -> None:
    for data in ('{"message": "gone"}', "gone", '"gone"'):
        with pytest.raises(AttemptFailed, match="gone"):
            ChatStream().take(event(data, "error"))


@pytest.mark.parametrize("data", ["{", "[1]", "5", '{"choices": [3]}', "nonsense"])
def test_what_is_no_chunk_is_malformed(data: str) -> None:
    with pytest.raises(AttemptFailed) as caught:
        ChatStream().take(event(data))
    assert (caught.value.error_type, caught.value.is_final) == ("malformed", False)


DELTA = 'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
BATCHES = [
    # a whole body at once, the text, is it complete
    (DELTA * 5 + "data: [DONE]\n\n", "aaaaa", True),
    (DELTA * 5, "aaaaa", False),
    (DELTA * 5 + "data: [DONE]\n\n" + DELTA, "aaaaa", True),
    (DELTA * 2 + "data:\n\n" + DELTA * 2 + "data: [DONE] \n\n", "aaaa", True),
    (
        DELTA * 2
        + 'data: {"choices":\ndata: [{"delta": {"content": "b"}, "finish_reason": "x"}]}\n\n',
        "aab",
        True,
    ),
]


@pytest.mark.parametrize(("body", "text", "is_complete"), BATCHES)
def test_events_of_one_read_count_as_those_of_many(body: str, text: str, is_complete: bool) -> None:
    for pieces in ([body.encode()], [bytes([b]) for b in body.encode()]):
        stream = chat_of(pieces)
        assert stream.choices[0].text == text
        assert stream.is_complete() == is_complete


@pytest.mark.parametrize("line", ["{", "5", '{"a": 1}, {"b": 2}', '{"a": 1', ']["', "nonsense"])
def test_one_malformed_line_among_good_ones(line: str) -> None:
    with pytest.raises(AttemptFailed) as caught:
        chat_of([f"{DELTA * 3}data: {line}\n\n{DELTA * 3}".encode()])
    assert caught.value.error_type == "malformed"


def test_done_without_finish_reason_needs_content() -> None:
    stream = ChatStream()
    stream.take(event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}))
    stream.take(event("[DONE]"))
    assert not stream.is_complete()
    stream = ChatStream()
    stream.take(event({"choices": [{"index": 0, "delta": {"reasoning": "hm"}}]}))
    assert not stream.is_complete()
    stream.take(event("[DONE]"))
    assert stream.is_complete()
    assert stream.choices[0].text is None


TEXTS = [
    (["\ud83d", "\ude00"], "😀"),
    (["a\ud83d"], "a\ufffd"),
    (["\ude00a"], "\ufffda"),
    (["\ud83d", "x", "\ude00"], "\ufffdx\ufffd"),
    (["\ud83d\ud83d", "\ude00!"], "\ufffd😀!"),
    (["plain", " é", "🧮"], "plain é🧮"),
    (["\ufeffa"], "\ufeffa"),
    ([], ""),
]


@pytest.mark.parametrize(("parts", "expected"), TEXTS)
def test_surrogates_are_joined_or_replaced(parts: list[str], expected: str) -> None:
    assert whole(parts) == expected
    assert whole(parts).encode("utf-8").decode() == expected


def test_error_text_of_many_shapes() -> None:
    assert error_text({"error": {"message": "m"}}) == "m"
    assert error_text({"detail": [{"loc": ["body"], "msg": "field required"}]}) == (
        '[{"loc": ["body"], "msg": "field required"}]'
    )
    assert error_text({}) == "{}"
    assert error_text("a\ud800") == "a\ufffd"
