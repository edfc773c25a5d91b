"""Text to tokens, by the rules that the overlap metrics are defined with.

Libraries are loaded at first use.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from evalrun.text.treebank_words import treebank_words

_TO_SPACE = bytes(byte if chr(byte).isalnum() and byte < 128 else 32 for byte in range(256))
# A full stop on a word, before more text: whether a sentence ends there decides if the word keeps
# it. And stops at
# the end of a line, where what follows may be cut in another way.
_INNER_STOP = re.compile(r"[^\s.]\.(?!\.)[^\w\s]*\s+\S|[.!?][^\w\s]*[^\S ]\s*\S")

# A chunk with an apostrophe or quote beside white space that is no blank: its rules look for a
# blank.
_QUOTE_AT_BREAK = re.compile(r"""['"`]\S*[^\S ]|[^\S ]\S*['"`]""")

# of letters alone, cut in two
_TWO_WORDS = frozenset(("cannot", "gimme", "gonna", "gotta", "lemme", "wanna"))

PUNKT_HELP = (
    "tokenizer=nltk_word_tokenize cuts sentences with NLTK's punkt_tab data, which is not on this "
    "machine. Get it with `python -m nltk.downloader punkt_tab`, or take the default "
    "tokenizer=nltk_treebank_no_punkt, which needs no data"
)


def rouge_tokens(text: str) -> list[str]:
    """Runs of a-z and 0-9 of the lower-cased text; everything else separates.

    Source: rouge-score 0.1.2, tokenize.py.

    Text in other scripts has no token at all.
    """
    return text.lower().encode("ascii", "replace").translate(_TO_SPACE).decode("ascii").split()


def char_tokens(text: str) -> list[str]:
    """Every character of the lower-cased text that is not white space: for scripts written
    without spaces.
    """
    return list("".join(text.lower().split()))


def stems(tokens: list[str]) -> list[str]:
    """Porter stems of the tokens of more than three characters.

    Source: rouge-score 0.1.2 over nltk's PorterStemmer.
    """
    return [_stem(token) if len(token) > 3 else token for token in tokens]


@lru_cache(maxsize=1 << 16)
def _stem(token: str) -> str:
    return str(_porter().stem(token))


@lru_cache(maxsize=1)
def _porter() -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


def nltk_treebank_no_punkt(text: str) -> list[str]:
    """Words and punctuation of the text taken as one sentence: nltk.word_tokenize(text,
    preserve_line=True) of nltk 3.9.1, whichever version is installed.

    Needs no data. A full stop inside the text stays on its word.
    """
    return treebank_words(text)


def nltk_word_tokenize(text: str) -> list[str]:
    """Words and punctuation, sentence by sentence: nltk.word_tokenize(text) with the words of nltk
    3.9.1; the sentences are those of the punkt_tab data on this machine.

    A text in which no sentence can end before its end needs no data. ValueError where punkt_tab is
    needed and missing.
    """
    if not needs_punkt(text):
        return nltk_treebank_no_punkt(text)
    from nltk.tokenize import sent_tokenize

    try:
        sentences = sent_tokenize(text)
    except LookupError:
        raise ValueError(PUNKT_HELP) from None
    return [token for sentence in sentences for token in nltk_treebank_no_punkt(sentence)]


def needs_punkt(text: str) -> bool:
    """True where a sentence might end inside the text, so that cutting it matters."""
    return _INNER_STOP.search(text) is not None


@lru_cache(maxsize=1)
def has_punkt() -> bool:
    """True where NLTK finds its English sentence data on this machine."""
    import nltk

    try:
        nltk.data.find("tokenizers/punkt_tab/english/")
    except LookupError:
        return False
    return True


def treebank(text: str) -> list[str]:
    """Penn Treebank words by nltk's TreebankWordTokenizer (Robert MacIntyre's rules), the text
    taken as one sentence.

    Its rules look no farther than the blanks around a chunk, but for the first and the last chunk
    of the text: so each distinct chunk between two others is cut once.
    """
    if _QUOTE_AT_BREAK.search(text):
        return list(_nltk_treebank().tokenize(text))
    chunks = text.split()
    if len(chunks) < 3:
        return list(_nltk_treebank().tokenize(text))
    tokens = list(
        _nltk_treebank().tokenize(f"{text[: len(text) - len(text.lstrip())]}{chunks[0]} x")
    )[:-1]
    for chunk in chunks[1:-1]:
        if chunk.isalnum() and chunk.isascii() and chunk.lower() not in _TWO_WORDS:
            tokens.append(chunk)
        else:
            tokens += _chunk_tokens(chunk)
    tokens += _nltk_treebank().tokenize(f"x {chunks[-1]}{text[len(text.rstrip()) :]}")[1:]
    return tokens


@lru_cache(maxsize=1 << 16)
def _chunk_tokens(chunk: str) -> tuple[str, ...]:
    word, mark = chunk[:-1], chunk[-1]
    if mark in ".,;:?!" and word.isalnum() and word.isascii() and word.lower() not in _TWO_WORDS:
        return (chunk,) if mark == "." else (word, mark)
    return tuple(_nltk_treebank().tokenize(f"x {chunk} x")[1:-1])


@lru_cache(maxsize=1)
def _nltk_treebank() -> Any:
    from nltk.tokenize.treebank import TreebankWordTokenizer

    return TreebankWordTokenizer()


def spacy_tokens(text: str, language: str = "en") -> list[str]:
    """Tokens of spaCy's rules for a language (spacy.blank(language)); no model is loaded.

    ValueError for a language that spaCy does not know. ImportError without spaCy.
    """
    return [token.text for token in _spacy(language)(text)]


@lru_cache(maxsize=8)
def _spacy(language: str) -> Any:
    import spacy

    try:
        return spacy.blank(language).tokenizer
    except ImportError as error:
        raise ValueError(
            f"spaCy has no tokenizer for language {language!r}: {str(error).strip()[:200]}"
        ) from None


ROUGE_TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "rouge": rouge_tokens,
    "char": char_tokens,
}
WORD_TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "nltk_treebank_no_punkt": nltk_treebank_no_punkt,
    "nltk_word_tokenize": nltk_word_tokenize,
}
