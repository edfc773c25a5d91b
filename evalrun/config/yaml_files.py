"""The user's configuration files, read before Hydra reads them: errors name the file and the line.

Hydra and OmegaConf alone would place a file with a wrong `# @package` line elsewhere, take
`revision: 1.10` for the text 1.1 and `system: no` for the text False.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from evalrun.config import places
from evalrun.config.keys import KeyKind, kind, unknown_key
from evalrun.errors import Fault, unknown, visible
from evalrun.metrics import METRICS

GROUPS = ("task", "model", "suite", "metric", "dataset", "judge", "summary")
_PREFIX = {
    "model": "model",
    "dataset": "dataset",
    "judge": "judge",
    "summary": "summary",
    "suite": "",
}
_WORDS = {"bool": "a truth value", "int": "a number", "float": "a number"}


def check(config_dir: str | None) -> None:
    """Look at every file of every group.

    Fault for a name that exists twice, a wrong `# @package` line, broken
    YAML, an unknown key, and a bare truth value or number where text is wanted.
    """
    own = (places.own("conf"), places.own("tasks_yaml"))
    for group in GROUPS:
        for name, path in places.names(group, config_dir).items():
            _check_header(group, name, path)
            if group == "metric" and name in METRICS:
                raise Fault(
                    f"metric {name} exists twice: as a metric of evalrun and as the file {path}. "
                    "Rename the file."
                )
            if not path.is_relative_to(own[0]) and not path.is_relative_to(own[1]):
                check_file(group, name, path, places.names("task", config_dir))


def check_file(group: str, name: str, path: Path, tasks: Collection[str] = ()) -> None:
    """Look at the keys and values of one file.

    Args:
        tasks: the names of all tasks.
    """
    root = _read(path)
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise Fault(
            f"{path}:{_line(root)}: a configuration file holds `key: value` lines; got "
            f"{_shown(root)}."
        )
    if group == "task":
        _check_schema(root, name, path)
    if group == "metric":
        return
    prefix = f"tasks.{name}" if group == "task" else _PREFIX[group]
    rows = [(key, node) for key, node in root.value if key.value not in ("defaults", "hydra")]
    for dotted, key, node in _walk(rows, prefix):
        place = f"{path}:{_line(key)}"
        what = _checked_kind(dotted, node, place)
        if group == "task" and dotted == f"{prefix}.generative":
            _check_variant(node, path, tasks)
        for scalar in _texts(what, node):
            _refuse_bare_word(dotted, scalar, path)


def _checked_kind(dotted: str, node: Any, place: str) -> KeyKind:
    """What the key holds. Fault where there is no such key, or its value has another shape."""
    what = kind(dotted)
    if what is None:
        raise unknown_key(dotted, place)
    if what in (KeyKind.section, KeyKind.mapping):
        raise Fault(
            f"{place}: {dotted} holds `key: value` lines; got {_shown(node)}."
            f"{_as_mapping(dotted, node)}"
        )
    if what is KeyKind.text and not isinstance(node, yaml.ScalarNode):
        raise Fault(f"{place}: {dotted} is one text; got {_shown(node)}.")
    return what


def _refuse_bare_word(dotted: str, scalar: Any, path: Path) -> None:
    """Fault for a value that is meant as text and that YAML reads as a number or truth value."""
    word = _WORDS.get(scalar.tag.rpartition(":")[2])
    if word is not None:
        raise Fault(
            f"{path}:{_line(scalar)}: {dotted} is text, but YAML reads {scalar.value} as {word}. "
            f"Write it in quotes: '{scalar.value}'."
        )


def subsets(path: Path) -> list[str]:
    """The subsets that a task's file lists; empty where it lists none."""
    root = _read(path)
    rows = root.value if isinstance(root, yaml.MappingNode) else []
    nodes = [
        node for key, node in rows if key.value == "subsets" and isinstance(node, yaml.SequenceNode)
    ]
    return [
        str(each.value)
        for node in nodes
        for each in node.value
        if isinstance(each, yaml.ScalarNode)
    ]


def _walk(rows: list[tuple[Any, Any]], prefix: str) -> Iterator[tuple[str, Any, Any]]:
    """(dotted key, key node, value node) of every row that is no section, and of unknown
    sections.
    """
    for key, node in rows:
        dotted = f"{prefix}.{key.value}" if prefix else str(key.value)
        if kind(dotted) in (KeyKind.section, KeyKind.mapping) and isinstance(
            node, yaml.MappingNode
        ):
            yield from _walk(node.value, dotted)
        else:
            yield dotted, key, node


def _check_variant(node: Any, path: Path, tasks: Collection[str]) -> None:
    """Fault for a generative variant that does not exist: whoever has a chat server alone is
    sent there.
    """
    if (
        isinstance(node, yaml.ScalarNode)
        and not node.tag.endswith(":null")
        and node.value not in tasks
    ):
        raise unknown("task", node.value, tasks, f"{path}:{_line(node)} (generative)")


def _as_mapping(dotted: str, node: Any) -> str:
    """How a list of metrics, or one name, is written in a task's file."""
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    names = [
        str(each.value)
        for each in nodes
        if isinstance(each, yaml.ScalarNode) and each.tag.endswith(":str")
    ]
    if not dotted.endswith(".metrics") or len(names) < len(nodes):
        return ""
    return f" Write {{{', '.join(f'{visible(name)}: {{}}' for name in names)}}}."


def _texts(what: KeyKind, node: Any) -> list[Any]:
    """The scalars below a row that must be text."""
    if what is KeyKind.text:
        return [node] if isinstance(node, yaml.ScalarNode) else []
    if what in (KeyKind.texts, KeyKind.column):
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        return [n for n in nodes if isinstance(n, yaml.ScalarNode)]
    return []


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise Fault(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8."
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise Fault(
            f"{path}:{line}: the YAML is broken: {error.problem or error.context}."
        ) from error
    except yaml.YAMLError as error:
        raise Fault(f"{path}: the YAML is broken: {' '.join(str(error).split())}.") from error


def _check_header(group: str, name: str, path: Path) -> None:
    """Fault for a first line that does not put the file where its group belongs: Hydra would
    place it elsewhere.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        first = file.readline().strip()
    if first.startswith("\ufeff"):
        raise Fault(
            f"{path}:1: the file begins with a byte order mark, which Hydra does not read. Save it "
            "without one."
        )
    wanted = {
        "task": (f"tasks.{name}",),
        "suite": ("_global_",),
        "metric": ("metrics", "_global_"),
    }.get(group)
    words = first.split()
    if wanted is None:
        if words[:2] == ["#", "@package"]:
            raise Fault(
                f"{path}:1: a {group} file has no `# @package` line; got {visible(first[:80])!r}. "
                "Remove it."
            )
    elif words[:2] != ["#", "@package"] or words[2:] not in [[w] for w in wanted]:
        line = f"# @package {wanted[0]}"
        raise Fault(
            f"{path}:1: the first line of a {group} file must be {line!r}; got "
            f"{visible(first[:80])!r}."
        )


def _check_schema(root: Any, name: str, path: Path) -> None:
    """Fault for a task without its schema: misspelt keys would pass."""
    for key, node in root.value:
        if key.value == "defaults" and isinstance(node, yaml.SequenceNode):
            entries = [e for e in node.value if isinstance(e, yaml.ScalarNode)]
            if any(str(e.value) == "/task_schema@_here_" for e in entries):
                return
    raise Fault(
        f"{path}: task {name} lacks its schema. Its first entry must be `defaults: "
        "[/task_schema@_here_, _self_]` (with `- /dataset: NAME` between the two for a dataset of "
        "conf/dataset)."
    )


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _shown(node: Any) -> str:
    return (
        visible(str(node.value)[:60])
        if isinstance(node, yaml.ScalarNode)
        else ("a list" if isinstance(node, yaml.SequenceNode) else "`key: value` lines")
    )
