r"""Formulas spelled so that the library reads what they say.

math-verify 0.9 reads some spellings as another value: a system as its last number, 2\pi r h as
2\pi r, \langle 1,2\rangle as 1.2, 1.5e3 as 4.5e. Here they are rewritten before it sees them.
Plain text processing in linear time; nothing is evaluated.
"""

from __future__ import annotations

import re
from fractions import Fraction

from evalrun.text.formulas import measured, split_list

MAX_FORMULA = 2000
"""Characters; a longer formula keeps its spelling."""

_BETWEEN = re.compile(
    r"(?:(?<!\\)\$\$?|(?<!\\)\\[)\]])\s{0,4}"
    r"(?:,?\s{0,4}(and|or|和|或)(?![A-Za-z])|[,;、，；])\s{0,4}(?:\$\$?|\\[(\[])"
)
_JOINTS = {
    "and": r" \text{ and } ",
    "和": r" \text{ and } ",
    "or": r" \text{ or } ",
    "或": r" \text{ or } ",
}
_LAST_UNIT = re.compile(r"(?<=[\d})])\s?[\u4e00-\u9fff]{1,12}[.。]?$")
_DELIMITER = re.compile(r"(?<!\\)(?:\$\$?|\\[()\[\]])")
_DOUBLED = re.compile(r"\\\\(?=[A-Za-z{}%$])")
_SINGLE = re.compile(r"(?<!\\)\\(?:\\\\)*(?=[A-Za-z{}%$])")
_SIGNS = {
    "π": r"\pi ",
    "∞": r"\infty ",
    "×": r"\times ",
    "÷": r"\div ",
    "·": r"\cdot ",
    "≤": r"\le ",
    "⩽": r"\le ",
    "≥": r"\ge ",
    "⩾": r"\ge ",
    "≠": r"\ne ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "∈": r"\in ",
    "±": r"\pm ",
    "∅": r"\emptyset ",
    "ℝ": r"\mathbb{R}",
    "°": r"^\circ ",
    "²": "^2",
    "³": "^3",
    "−": "-",
    "θ": r"\theta ",
    "α": r"\alpha ",
    "β": r"\beta ",
    "（": "(",
    "）": ")",
    "，": ",",
    "：": ":",
    "；": ";",
}
_SIGN = re.compile(f"[{''.join(_SIGNS)}]")
_RADICAL = re.compile(r"√\s?(?:(\d+(?:\.\d+)?|[A-Za-z])|[({]([^(){}]{1,80})[)}])")
_SIMPLE = (
    (re.compile(r"\\(?:varnothing|O)(?![A-Za-z])"), r"\\emptyset "),
    (re.compile(r"\\colon(?![A-Za-z])|\\text\s?\{\s*:\s*\}"), ":"),
    (re.compile(r"\\text\s?\{\s?(-?)infinity\s?\}"), r"\1\\infty "),
    (re.compile(r"(?<![\\A-Za-z{])(exp|pi|ln|log|sin|cos|tan)(?![A-Za-z])"), r"\\\1 "),
    (re.compile(r"[€£¥₹₩]"), ""),
    (re.compile(r"(?<=&)\s?d(?=\s?(?:\\\\|&|\\end))"), "{d}"),  # else the d of an integral
    (re.compile(r"\\[bB]ig{1,2}[lrm]?(?![A-Za-z])"), ""),
    (re.compile(r"\\(?:mathbb|mathbf)\s?([RZNQC])(?![A-Za-z])"), r"\\mathbb{\1}"),
    (re.compile(r"\\(?:langle|left\s?\\langle)(?![A-Za-z])([^<>|]{1,200}?,[^<>|]{1,200}?)"
                r"\\(?:rangle|right\s?\\rangle)(?![A-Za-z])"), r"(\1)"),
    (re.compile(r"(?<=\d)[eE]([+-]?\d{1,4})(?![\dA-Za-z.])"), r"\\times 10^{\1}"),
)  # fmt: skip
_GROUPED = re.compile(
    r"(?<![\d.,(\[])(?<!\\\{)(?<![,(\[]\s)(?<!\\\{\s)\d{1,3}(?:(?:,|\{,\}|,\\!|\\,|\\ | )\d{3})+"
    r"(?![\d,]|\s?\)|\s?\]|\s?\\\}|\s?,)"
)
_GROUP_MARK = re.compile(r"\{,\}|,\\!|\\,|\\ |[, ]")
_BESIDE = re.compile(r"\d{1,40}(?:(?:\s|\\[ ,;]){1,4}\d{1,40}){1,20}")  # 1 2 is read as a sum
_GAP = re.compile(r"(?:\s|\\[ ,;])+")
_CASES = re.compile(r"\\(?:begin\{cases\}|left\s?\\\{\s?\\begin\{(?:array|aligned|matrix)\})")
_CASES_HEAD = re.compile(r"^\s?(?:\{[lcr| ]{0,9}\})?")
_CASES_TAIL = re.compile(r"\\end\{(?:cases|array|aligned|matrix)\}(?:\s?\\right\s?\.)?")
_ROW_END = re.compile(r"\\\\(?=[A-Za-z])")  # else a\\c is read as a command \c
_SET_NAME = re.compile(r"^[A-Z](?:\s?\\(?:cap|cup|setminus)(?![A-Za-z])\s?[A-Z])+\s?=\s?")
_CONDITION = re.compile(r"&(?!\s{0,4}(?:[=<>]|\\(?:le|ge|leq|geq|ne|neq)(?![A-Za-z])|&))")
_RELATION = re.compile(r"(?<![<>!\\])=|[<>]|\\(?:le|ge|leq|geq|ne|neq)(?![A-Za-z])")
_REPEATED = re.compile(
    r"(?<![\d.])(\d*)\.(\d{0,20})(?:\\overline\s?\{(\d{1,20})\}|\\dot\s?\{(\d)\}"
    r"(?:(\d{0,20})\\dot\s?\{(\d)\})?)"
)
_ANGLE = re.compile(
    r"\\(sin|cos|tan|cot|sec|csc)(\^\{?-?\d\}?)?\s?[({]?\s?(\d{1,6}(?:\.\d{1,6})?)\s?"
    r"\^\s?\{?\s?\\circ\s?\}?[)}]?"
)
_TAIL = re.compile(r"(?<=[\d}\sa-z])\s{0,4}(?<![A-Za-z\\])(ab|bc|[cdghlmst])\s{0,4}$")
_UNIT_LETTERS = frozenset("ghlms")
_NOT_UNKNOWN = re.compile(
    r"\\text\s?\{[^{}]*\}|\\(?:d|t|c)?frac|\\(?:sqrt|pi|cdot|times|left|right)(?![A-Za-z])"
)
_NUMBER = re.compile(r"[\d\s.,{}()/+*-]*\d[\d\s.,{}()/+*-]*")
_SIGNED_PAIR = re.compile(r"\\(pm|mp)(?![A-Za-z])\s?")


def body(text: str) -> str:
    r"""The formula without its delimiters; formulas joined by a comma, "and", "or" are one.

    "$x=1$, $y=2$" is "x=1, y=2".
    """
    line = _BETWEEN.sub(lambda match: _JOINTS.get(match[1], ", "), " ".join(text.split()))
    return _DELIMITER.sub("", line).strip()


def spelled(text: str) -> str:
    """The body of a formula as the library must see it to read what it says."""
    text = body(text)
    if len(text) > MAX_FORMULA:
        return text
    if _DOUBLED.search(text) and not _SINGLE.search(text):
        text = text.replace("\\\\", "\\")  # a gold that was escaped once too often
    text = _ROW_END.sub(r"\\\\ ", text)
    text = _SET_NAME.sub("", text, count=1)
    text = _RADICAL.sub(lambda match: rf"\sqrt{{{match[1] or match[2]}}}", text)
    text = _SIGN.sub(lambda match: _SIGNS[match[0]], text)
    text = _LAST_UNIT.sub("", text)
    for pattern, better in _SIMPLE:
        text = pattern.sub(better, text)
    text = _GROUPED.sub(lambda match: _GROUP_MARK.sub("", match[0]), text)
    text = _GAP.sub(", ", text) if _BESIDE.fullmatch(text) else text
    text = _REPEATED.sub(_ratio_of_repeated, text)
    text = _ANGLE.sub(_in_radians, text)
    text = ", ".join(map(_both_signs, split_list(_listed(text))))
    return _with_letters(measured(text) or text)


def _listed(text: str) -> str:
    r"""A system of equations as a list: \begin{cases}x=1\\y=2\end{cases} is x=1, y=2."""
    head = _CASES.search(text)
    tail = _CASES_TAIL.search(text, head.end()) if head else None
    if head is None or tail is None:
        return text
    inner = _CASES_HEAD.sub("", text[head.end() : tail.start()], count=1)
    rows = [row.replace("&", "").strip(" ,;.") for row in inner.split("\\\\")]
    rows = [row for row in rows if row]
    is_system = all(_RELATION.search(row.partition(",")[0]) for row in rows)
    if not is_system or _CONDITION.search(inner) or "\\begin" in inner:
        return text  # a function by cases
    return text[: head.start()] + ", ".join(rows) + text[tail.end() :]


def _ratio_of_repeated(match: re.Match[str]) -> str:
    r"""0.1\overline{6} is \frac{1}{6}; 0.\dot{1}\dot{3} is \frac{13}{99}."""
    repeated = match[3] or match[4] + (match[5] or "") + (match[6] or "")
    start = Fraction(f"{match[1] or 0}.{match[2] or 0}")
    part = Fraction(int(repeated), (10 ** len(repeated) - 1) * 10 ** len(match[2]))
    value = start + part
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def _in_radians(match: re.Match[str]) -> str:
    return rf"\{match[1]}{match[2] or ''}({match[3]}\cdot\frac{{\pi}}{{180}})"


def _both_signs(part: str) -> str:
    r"""The two values of a \pm inside a formula: 1\pm a is 1+a, 1-a. Signs go together."""
    part = part.strip()
    signs = _SIGNED_PAIR.findall(part)
    value = part.rpartition("=")[2].strip()
    if not signs or _SIGNED_PAIR.match(value) or len(signs) > 4:
        return part
    upper = _SIGNED_PAIR.sub(lambda match: "+" if match[1] == "pm" else "-", value)
    lower = _SIGNED_PAIR.sub(lambda match: "-" if match[1] == "pm" else "+", value)
    return re.sub(r"(?<=[(\[{,])\+", "", f"{upper}, {lower}")


def _with_letters(text: str) -> str:
    r"""The last letters kept as unknowns where the library would drop them as a unit.

    2\pi r h, \frac{1}{2} ab, 3t; but 3 m and 3\sqrt{2} s are lengths and times.
    """
    tail = _TAIL.search(text)
    if tail is None or not _is_unknown(text, tail):
        return text
    return f"{text[: tail.start()]}{{{tail[1]}}}"


def _is_unknown(text: str, tail: re.Match[str]) -> bool:
    """Whether the letters at the end are a factor, not a unit."""
    rest = _NOT_UNKNOWN.sub(" ", text[: tail.start()])
    has_letters = re.search(r"[A-Za-z]", rest) is not None
    return has_letters or tail[1] not in _UNIT_LETTERS or not _NUMBER.fullmatch(rest)


def unit_letter(text: str) -> str:
    """The letter at the end that may be a unit: m of 3m; "" without one."""
    tail = _TAIL.search(text)
    return tail[1] if tail and not _is_unknown(text, tail) else ""
