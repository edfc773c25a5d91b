"""Rows -> Docs: which column is the question, which are the options, which answer is right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from evalrun.errors import Fault, unknown, visible
from evalrun.tasks.gold import GOLD_FORMS, fitting_bases, gold_places, letters_of
from evalrun.tasks.rows import Rows, column_of
from evalrun.tasks.templates import filled, is_template, names_of
from evalrun.tasks.values import MISSING, as_text, is_absent, jsonable
from evalrun.types import DatasetPlan, Doc

FIELDS = ("query", "gold", "choices", "id", "cluster", "system")


def make_docs(
    task: str,
    subset: str | None,
    dataset: DatasetPlan,
    rows: Rows,
    limit: int | None,
    extra: Iterable[str] = (),
) -> list[Doc]:
    """The first `limit` rows as documents, in the order of the rows.

    dataset.columns maps our field to their column, or to a template over the row's columns; query
    and gold are columns of that name where it is silent, the other fields are absent; gold: null
    means that there is none.

    Args:
        extra: further names that the templates use; each is a field of dataset.columns or a column.

    Fault: an unknown field or column, a row without a question or an answer, an answer that names
    no option, an id that stands twice.
    """
    table = _Table(dataset, rows, limit, tuple(extra))
    docs: list[Doc] = []
    seen: dict[str, int] = {}
    for i in range(table.n):
        query, choices, system = table.query(i), table.choices(i), table.optional("system", i)
        gold = table.gold(i, choices)
        doc_id = table.own_id(i, seen) or _hashed_id(query, choices, gold, system, seen)
        docs.append(
            Doc(
                id=doc_id,
                task=task,
                row=rows.numbers[i],
                query=query,
                gold=gold,
                choices=choices,
                subset=subset,
                system=system,
                cluster=table.optional("cluster", i),
                extra=table.extra(i),
            )
        )
    return docs


def _hashed_id(
    query: str,
    choices: tuple[str, ...],
    gold: tuple[str, ...] | tuple[int, ...],
    system: str | None,
    seen: dict[str, int],
) -> str:
    """16 hex digits of the content; an equal document later on gets #2, #3, ..."""
    content = json.dumps([query, choices, gold, system])
    key = hashlib.sha256(content.encode()).hexdigest()[:16]
    seen[key] = seen.get(key, 0) + 1
    return key if seen[key] == 1 else f"{key}#{seen[key]}"


class _Table:
    """The columns of one dataset, read for a document at a time."""

    def __init__(
        self, dataset: DatasetPlan, rows: Rows, limit: int | None, extra: tuple[str, ...]
    ) -> None:
        self.rows, self.dataset = rows, dataset
        self.n = len(rows) if limit is None else min(limit, len(rows))
        if dataset.gold_form not in GOLD_FORMS:
            raise unknown("gold form", dataset.gold_form, GOLD_FORMS, "dataset.gold_form")
        names = _names(dataset, extra)
        self._cells = {
            field: _cells(rows, name, self.n, f"dataset.columns.{field}")
            for field, name in names.items()
            if isinstance(name, str)
        }
        options = names.get("choices")
        self._options = (
            [_cells(rows, name, self.n, "dataset.columns.choices") for name in options]
            if isinstance(options, tuple)
            else None
        )
        self._base: int | None = dataset.index_base
        self._extra = {
            name: _cells(rows, _extra_column(name, names), self.n, _extra_key(name, names))
            for name in extra
        }

    def query(self, i: int) -> str:
        """The question. Fault where it is absent, blank or not a text."""
        value = self._cells["query"][i]
        text = as_text(value)
        if text is None or not text.strip():
            raise Fault(
                f"{self.rows.place(i)} has no question: dataset.columns.query reads "
                f"{_shown(value)}."
            )
        return text

    def optional(self, field: str, i: int) -> str | None:
        """A field that a row may lack."""
        if field not in self._cells or is_absent(self._cells[field][i]):
            return None
        return self._text(self._cells[field][i], i, field)

    def own_id(self, i: int, seen: dict[str, int]) -> str | None:
        """The dataset's own id, None where no column of ids is declared.

        Fault: absent, or there before.
        """
        if "id" not in self._cells:
            return None
        value = self._cells["id"][i]
        text = "" if is_absent(value) else self._text(value, i, "id")
        if not text:
            raise Fault(
                f"{self.rows.place(i)} has no id: dataset.columns.id reads {_shown(value)}."
            )
        if text in seen:
            raise Fault(
                f"{self.rows.place(i)} has the id {visible(text)!r} (dataset.columns.id), which "
                f"row {self.rows.numbers[seen[text]] + 1} has too. Ids are unique; without "
                "columns.id evalrun makes them."
            )
        seen[text] = i
        return text

    def choices(self, i: int) -> tuple[str, ...]:
        """The options of a row: a column that holds a list, or several columns of which the last
        may be absent.
        """
        if self._options is not None:
            return self._present_options([cells[i] for cells in self._options], i)
        if "choices" not in self._cells:
            return ()
        value = self._cells["choices"][i]
        if not isinstance(value, (list, tuple)) or not value:
            raise Fault(
                f"{self.rows.place(i)}: dataset.columns.choices reads {_shown(value)}. Allowed: a "
                "column that holds a list of options, or a list of columns ([A,B,C,D])."
            )
        return tuple(self._filled(each, i, "choices") for each in value)

    def _present_options(self, values: list[Any], i: int) -> tuple[str, ...]:
        texts = [
            None if is_absent(value) or value == "" else self._text(value, i, "choices")
            for value in values
        ]
        while texts and texts[-1] is None:
            texts.pop()
        if not texts or None in texts:
            which = (
                f"option {texts.index(None) + 1} is absent, a later one is not"
                if texts
                else "it has no option"
            )
            raise Fault(
                f"{self.rows.place(i)}: {which} (dataset.columns.choices). Only the last options "
                "may be absent."
            )
        return tuple(text for text in texts if text is not None)

    def gold(self, i: int, choices: tuple[str, ...]) -> tuple[str, ...] | tuple[int, ...]:
        """The right answers: places in `choices`, or texts where there are none.

        A list holds several.
        """
        if "gold" not in self._cells:
            return ()
        value = self._cells["gold"][i]
        if self.dataset.gold_form == "flags":
            return self._flagged(value, choices, i)
        values = self._gold_values(i)
        if not values or any(is_absent(each) for each in values):
            raise Fault(
                f"{self.rows.place(i)} has no answer: dataset.columns.gold reads {_shown(value)}."
            )
        if not choices:
            return tuple(self._filled(each, i, "gold") for each in values)
        places = [place for each in values for place in self._places(each, choices, i)]
        return tuple(dict.fromkeys(places))

    def _flagged(self, value: Any, choices: tuple[str, ...], i: int) -> tuple[int, ...]:
        """The places of the ones in a list of 0 and 1 (or false and true), one per option."""
        flags = (
            [int(each) for each in value if each in (0, 1)]
            if isinstance(value, (list, tuple))
            else []
        )
        if not choices or len(flags) != len(choices) or len(value) != len(flags) or 1 not in flags:
            raise Fault(
                f"{self.rows.place(i)}: the answer {_shown(value)} (dataset.columns.gold) does not "
                f"mark the {len(choices)} options. Allowed with dataset.gold_form=flags: a list of "
                "0 and 1, one per option, at least one of them 1."
            )
        return tuple(place for place, flag in enumerate(flags) if flag)

    def _filled(self, value: Any, i: int, field: str) -> str:
        """The text; Fault where it is empty: an empty answer matches everything or nothing, and
        has no length.
        """
        text = self._text(value, i, field)
        if not text.strip():
            what = "option" if field == "choices" else "answer"
            raise Fault(
                f"{self.rows.place(i)} has an empty {what}: dataset.columns.{field} reads "
                f"{_shown(value)}."
            )
        return text

    def _places(self, value: Any, choices: tuple[str, ...], i: int) -> tuple[int, ...]:
        form, base = self.dataset.gold_form, self._index_base()
        found = gold_places(value, choices, form, base)
        if len(found) == 1:
            return next(iter(found.values()))
        numbers = f"an index from {base} to {base + len(choices) - 1}"
        letters = f"a letter from A to {letters_of(len(choices))[-1]}"
        allowed = {"index": numbers, "letter": letters, "text": "the text of an option"}
        start = f"{self.rows.place(i)}: the answer {_shown(value)} (dataset.columns.gold)"
        if found:
            readings = ", ".join(
                f"as {name} option {places[0] + 1}" for name, places in found.items()
            )
            raise Fault(
                f"{start} can be read in more than one way: {readings}. Declare dataset.gold_form."
            )
        ways = allowed.get(form) or ", ".join(allowed.values())
        shown = ", ".join(visible(each)[:40] for each in choices)
        raise Fault(
            f"{start} names none of the {len(choices)} options ({shown}). Allowed: {ways} "
            f"(dataset.gold_form={form})."
        )

    def _index_base(self) -> int:
        """What indices are counted from: as declared, else the one base that fits every document.

        Fault where 0 and 1 both fit: every answer would be another option.
        """
        form = self.dataset.gold_form
        if self._base is None and form not in ("index", "auto"):
            self._base = 0
        if self._base is None:
            fitting = fitting_bases(
                ((self._gold_values(i), self.choices(i)) for i in range(self.n)), form
            )
            if len(fitting) > 1:
                raise Fault(
                    f"{self.rows.source}: the answers are indices that fit whether options are "
                    "counted from 0 or from 1. Say which: dataset.index_base=0 or "
                    "dataset.index_base=1."
                )
            self._base = fitting[0] if fitting else 0
        return self._base

    def _gold_values(self, i: int) -> list[Any]:
        value = self._cells["gold"][i]
        return list(value) if isinstance(value, (list, tuple)) else [value]

    def extra(self, i: int) -> tuple[tuple[str, Any], ...]:
        """The further columns that the templates use.

        A row that lacks one has none of that name.
        """
        pairs = []
        for name, cells in self._extra.items():
            if cells[i] is not MISSING:
                try:
                    pairs.append((name, jsonable(cells[i])))
                except ValueError as error:
                    raise Fault(
                        f"{self.rows.place(i)}: column {visible(name)!r}: {error}."
                    ) from error
        return tuple(pairs)

    def _text(self, value: Any, i: int, field: str) -> str:
        text = as_text(value)
        if text is None:
            raise Fault(
                f"{self.rows.place(i)}: dataset.columns.{field} reads {_shown(value)}, which has "
                "no text form."
            )
        return text


def _names(dataset: DatasetPlan, extra: tuple[str, ...]) -> dict[str, str | tuple[str, ...]]:
    """Field -> column name, or the names of the option columns."""
    names: dict[str, str | tuple[str, ...]] = {"query": "query", "gold": "gold"}
    for field, column in dataset.columns:
        if field not in FIELDS and field not in extra:
            raise unknown("field", field, [*FIELDS, *extra], "dataset.columns")
        if column is None and field != "query":
            names.pop(field, None)
            continue
        is_list = field == "choices" and isinstance(column, (list, tuple))
        if is_list:
            names[field] = check_choices(column, "dataset.columns.choices")
        elif isinstance(column, str) and column:
            names[field] = column
        else:
            raise Fault(
                f"dataset.columns.{field}={column!r} is not the name of a column. Write it as "
                "text, in quotes."
            )
    if (
        dataset.cluster is not None
        and names.setdefault("cluster", dataset.cluster) != dataset.cluster
    ):
        raise Fault(
            f"dataset.cluster={dataset.cluster} and dataset.columns.cluster={names['cluster']} "
            "name two columns. Keep one of the keys."
        )
    return names


def _cells(rows: Rows, source: str, n: int, where: str) -> list[Any]:
    """A column, or the texts that a template gives for the first n rows.

    Fault: it reads what is no column.
    """
    if not is_template(source):
        return column_of(rows, source, where)
    for name in sorted(names_of(source, where) - set(rows.columns)):
        raise unknown("column", name, rows.columns, f"{rows.source} ({where})")
    return [filled(source, rows.rows[i], where, rows.place(i)) for i in range(n)]


def _extra_key(name: str, names: dict[str, str | tuple[str, ...]]) -> str:
    return f"dataset.columns.{name}" if name in names else "a template's name"


def _extra_column(name: str, names: dict[str, str | tuple[str, ...]]) -> str:
    """The column behind a name of a template: as dataset.columns maps it, else the column of
    that name.
    """
    column = names.get(name, name)
    return column if isinstance(column, str) else name


def check_choices(values: Any, where: str) -> tuple[str, ...]:
    """Options (or names) written in YAML, as texts.

    Fault: not a list, empty, or an entry that is not text.

    YAML reads a bare yes, no, on, off as a boolean: such an entry must be quoted.
    """
    if not isinstance(values, (list, tuple)) or not values:
        raise Fault(f"{where}={values!r} is not a list of texts with at least one entry.")
    for each in values:
        if isinstance(each, bool):
            raise Fault(
                f"{where} holds the boolean {str(each).lower()}: YAML reads a bare yes, "
                "no, on, off so. "
                'Write the text in quotes: "yes".'
            )
        if not isinstance(each, str):
            raise Fault(
                f"{where} holds {each!r}, which YAML does not read as text. Write it in quotes."
            )
    repeated = sorted({each for each in values if list(values).count(each) > 1})
    if repeated:
        raise Fault(f"{where} holds {repeated[0]!r} twice. Each option stands once.")
    return tuple(values)


def _shown(value: Any) -> str:
    if value is MISSING:
        return "no such column in this row"
    if value is None:
        return "null"
    text = visible(repr(value))
    return text if len(text) <= 80 else text[:77] + "..."
