r"""One plain spelling for a stated formula: x=\dfrac{1}{2}\text{ cm} becomes \frac{1}{2}.

Names before a value, units, spacing commands, text commands and delimiters are dressing. An
equation in unknowns (y=-2x+5) stays one. Values side by side (x = 1 or x = 2;
\theta = \pi, f(0) = 1) become "1, 2".
"""

from __future__ import annotations

import re

from evalrun.reading.numbers.number_values import find_values
from evalrun.reading.stems import Stems
from evalrun.text.formulas import quantity

MAX_FORMULA = 600
"""Characters; a longer text is no short formula and keeps its spelling."""

_REPAIRS = (
    (re.compile(r"\t(?=(?:ext|imes|heta|frac|an\b|au\b|herefore))"), r"\\t"),
    (re.compile(r"\x0c(?=rac)"), r"\\f"),
    (re.compile(r"\x08(?=(?:oxed|eta\b|ar\b|inom))"), r"\\b"),
    (re.compile(r"\\\\(?=[A-Za-z]{2})"), r"\\"),
    (re.compile(r"(?<![\w)}])\+\s?(?=\\infty|∞)"), ""),
    (re.compile(r"(?<![\\A-Za-z])(?=(?:frac|sqrt)\{)"), r"\\"),
)
_ODD = re.compile(r"[\t\x0c\x08+fs]")
_OTHER_SPACE = re.compile(r"\s")
_DELIMITERS = re.compile(r"^(?:\*\*|\$\$?|\\\(|\\\[|__)|(?:\*\*|(?<!\\)\$\$?|\\\)|\\\]|__)$")
_LEFT_DRESS = frozenset("`*$\\_{")
_RIGHT_DRESS = frozenset("`*$)]_.,;:。，；}")
_SPACING = re.compile(
    r"(?<!\\)\\(?:[,;:! ]|q?quad(?![A-Za-z])|displaystyle(?![A-Za-z])|(?:left|right"
    r"|[bB]igg?[lr]?)(?![A-Za-z])|limits(?![A-Za-z]))|(?<!\\)~|&|\\\\\s*$"
)
_BRACKET_GAP = re.compile(r"(?<=[({\[|])\s+|\s+(?=[)}\]])|(?<=\w)\s+(?=\()")
_SET = re.compile(r".[{|:,].*}$")
_WORDS_LAST = re.compile(
    r"(?<=[\w})\s])\\(?:text|mathrm|textrm|mbox)\s?\{\s?[A-Za-z ./]{1,24}\}(?:\^\{?\d\}?)?$"
)
_QUAD = re.compile(r"\\q?quad(?![A-Za-z])(?!\s{0,3}\()")
_ABOUT = re.compile(r"\s*(?:≈|\\approx(?![A-Za-z]))\s*")
_JOINT = re.compile(
    r"\\(?:text|mathrm|textrm|mbox)\s?\{\s?(?:and|or|且|和|或|与|及)\s?,?\s?\}|\b(?:and|or)\b"
    r"|[且和或与、；;，]|,\s*(?:and|or)\b"
)
_LISTING = Stems("and", "or", ",", ";", other="且和或与及、；，")
_FONT = re.compile(
    r"\\(?:text|mathrm|textrm|mbox|textbf|mathbf|boldsymbol|textit|operatorname|bm)\s?\{([^{}]*)\}"
)
_BOX = re.compile(r"\\(?:boxed|fbox)\s?\{")
_SIGNS = {
    "π": r"\pi ", "∞": r"\infty ", "×": r"\times ",
    "÷": r"\div ", "·": r"\cdot ", "≤": r"\le ", "≥": r"\ge ",
    "≠": r"\ne ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
    "±": r"\pm ", "°": r"^\circ ", "²": "^2", "³": "^3",
    "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "λ": r"\lambda ", "⩽": r"\le ", "⩾": r"\ge ",
    "【": "[", "】": "]",
}  # fmt: skip
_ROOT = re.compile(
    r"√\s?(?:(\d+(?:\.\d+)?|[A-Za-z])|[({\[]([^()\[\]{}]{1,60})[)}\]])"
    r"|(?<![A-Za-z\\])sqrt\s?\(([^()]{1,60})\)"
)
_UNIT = (
    r"(?:\s*(?:\\(?:text|mathrm|textrm|mbox|textbf)\s?\{[^{}]*\}|\\(?:circ|degree)|"
    r"(?<![A-Za-z\\])(?:[A-Za-z]{3,}|[ckmn]?m|kg|m?g|m?L|[mk]?s|hr?|ft|in|yd|mi|lb|oz|°[CF]?|J|W|V"
    r"|A|N|Pa|Hz|K|mol|[kM](?:J|W|V|N|Pa|Hz|B)|GB|MB|mph|dm|km|eV|rad|units?)(?![A-Za-z])"
    r"|[\u4e00-\u9fff]{1,6}|per\b|/)(?:\s?\^\s?\{?-?\d\}?|[²³])?\.?){1,8}"
)
_MEASURED = re.compile(
    r"(?P<value>[-+]?\s?\\?[$€£¥]?\s?(?:\d[\d,.]*(?:\s?/\s?\d+)?|\\frac\{\d+\}\{\d+\}"
    r"|\d+\\frac\{\d+\}\{\d+\})(?:\s?(?:\\times|x|\*)\s?10\^\{?-?\d+\}?)?"
    r"|[-+]?[\d.]*\s?(?:\\sqrt\{[^{}]{1,20}\}|\\pi)(?:\s?/\s?\d+)?)" + r"\s*" + _UNIT + r"\s*"
)
_FUNCTIONS = re.compile(
    r"\\?(?:arc)?(?:sin|cos|tan|cot|sec|csc|ln|log|exp|sqrt)(?![A-Za-z])|\\(?:d?frac|pi|infty|cdot"
    r"|times|pm|div|le|ge|in|circ)(?![A-Za-z])|\\%"
)
_UNKNOWN = re.compile(
    r"\\(?:theta|alpha|beta|lambda|mu|omega|phi|varphi)(?![A-Za-z])"
    r"|(?<![\\A-Za-z])[A-DF-HJ-Za-dfghj-z](?![A-Za-z])|(?<![\\A-Za-z])[A-Za-z]_"
)
_NAME = re.compile(
    r"\s*(?:\\?[A-Za-z]{1,12}|\|[^|=]{1,30}\||\\(?:angle|triangle|vec|overrightarrow|overline"
    r"|mathbf)\s?\{?[A-Za-z ]{1,6}\}?"
    r"|\([A-Za-z\\ ,]{1,30}\))(?:_\{?\w{1,12}\}?|\^\{?[\w+-]{1,3}\}?"
    r"|')?(?:\s?\([^=]{0,60}\))?(?:_\{?\w{1,12}\}?)?\s*"
)
_EQUALS = re.compile(r"(?<![<>!:\\])=(?!=)")
_IN = re.compile(r"\s*\\?[A-Za-z]{1,8}(?:_\{?\w\}?)?\s?\\in(?![A-Za-z])\s*")
_FIGURE = re.compile(r"[\d¼-¾⅐-⅞]")
_LETTERS = re.compile(r"[A-Za-z]{2,}")


def spelled(raw: str) -> str:
    """The plain spelling of a formula that stands alone."""
    if len(raw) > MAX_FORMULA:
        return raw.strip()
    text = _undressed(raw)
    is_number, value = _number(text)
    if is_number:
        return value
    if _LISTING.may_match(text):
        parts = [part for part in split_list(_JOINT.sub(", ", text)) if part.strip()]
    else:
        parts = [text] if text.strip() else []
    values = [_value(part, len(parts) > 1) for part in parts]
    return ", ".join(values)


def _undressed(raw: str) -> str:
    """In LaTeX's own signs, without delimiters, spacing commands and needless spaces."""
    text = _repaired(raw).strip()
    if "√" in text or "sqrt" in text:
        text = _ROOT.sub(lambda m: rf"\sqrt{{{m[1] or m[2] or m[3]}}}", text)
    if not text.isascii():
        text = "".join([_SIGNS.get(char, char) for char in text])
    if "\\" in text or "~" in text or "&" in text:
        text = _SPACING.sub(" ", _QUAD.sub(", ", text))
    text = _unboxed(_bare(text))
    text = (
        text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").replace("\\cfrac", "\\frac")
    )
    if " " in text or _OTHER_SPACE.search(text):
        text = _bare(_BRACKET_GAP.sub("", text))
    return text


def _repaired(text: str) -> str:
    """With the backslashes that JSON or Python strings have lost or doubled."""
    if "\\" not in text and not _ODD.search(text):
        return text
    for pattern, better in _REPAIRS:
        text = pattern.sub(better, text)
    return text


def _bare(text: str) -> str:
    """Without delimiters, emphasis and punctuation at the ends."""
    text = text.strip()
    if text and text[0] not in _LEFT_DRESS and text[-1] not in _RIGHT_DRESS:
        return text
    for _ in range(6):
        before = text
        text = text.strip().strip("`").strip()
        text = _DELIMITERS.sub("", text).strip()
        text = text.rstrip(".,;:。，；").rstrip()
        if text.startswith("{") and text.endswith("}") and not _SET.search(text):
            text = text[1:-1]
        if text == before:
            break
    return text


def _unboxed(text: str) -> str:
    box = _BOX.match(text)
    if box is None or not text.endswith("}"):
        whole = _FONT.fullmatch(text)
        return whole[1].strip() if whole else text
    return _bare(text[box.end() : -1])


def _number(text: str) -> tuple[bool, str]:
    """(True, canonical) where the text is one plain number, perhaps with its unit; a percent sign
    stays."""
    found = quantity(text) if _FIGURE.search(text) else None
    if found is not None:
        values = find_values(text, 0, len(text))
        return True, values[0].value + r"\%" * found.is_percent if values else text
    return False, text


def split_list(text: str) -> list[str]:
    """Parts between commas that stand in no bracket; digits grouped by commas stay whole."""
    parts, depth, start = [], 0, 0
    for place, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif (
            char == ","
            and depth <= 0
            and not re.fullmatch(r"\d,\d{3}", text[max(0, place - 1) : place + 4])
        ):
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _value(part: str, is_listed: bool) -> str:
    """A member without its name and its unit: x = 5 is 5; the last of a chain of equations."""
    text = part.strip()
    text = _IN.sub("", text, count=1) if _IN.match(text) else text
    exact, about = _ABOUT.split(text)[:2] if _ABOUT.search(text) else (text, "")
    text = about if about and _NAME.fullmatch(exact) else exact
    sides = _EQUALS.split(text)
    if len(sides) > 1 and sides[-1].strip() and _is_named(sides, is_listed):
        text = sides[-1].strip()
    return _without_unit(text)


def _is_named(sides: list[str], is_listed: bool) -> bool:
    """Whether the last side of an equation alone is the value: x = 5; not y = -2x + 5."""
    is_name = _NAME.fullmatch(sides[0]) is not None
    has_unknown = bool(_UNKNOWN.search(_FUNCTIONS.sub(" ", sides[-1])))
    if is_name and has_unknown and len(sides) == 2 and not is_listed:
        return False
    if len(sides) > 2 or (is_name and (is_listed or not has_unknown)):
        return True
    return not _has_letters(sides[0])


def _has_letters(text: str) -> bool:
    return bool(re.search(r"[A-Za-z]", _FUNCTIONS.sub(" ", text)))


def _without_unit(text: str) -> str:
    measured = _MEASURED.fullmatch(text)
    if measured:
        text = measured["value"].strip()
    elif re.search(r"\d|\\[a-z]", unworded := _WORDS_LAST.sub("", text).strip()):
        text = unworded
    whole = _FONT.fullmatch(text)
    if whole:
        text = whole[1].strip()
    is_number, value = _number(text)
    return value if is_number else text
