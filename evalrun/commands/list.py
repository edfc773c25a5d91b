"""evalrun list tasks|models|metrics|suites: what can be named; evalrun list metrics NAME: all
about one metric.
"""

from __future__ import annotations

from pathlib import Path

from evalrun.config import places
from evalrun.errors import Fault, unknown, visible

KINDS = {"tasks": "task", "models": "model", "suites": "suite", "metrics": "metric"}


def main(argv: list[str]) -> int:
    """Print the names of one kind, or of all, with what each is. Returns the exit code."""
    words, config_dir = _without_config_dir(argv)
    if words[:1] == ["metrics"] and len(words) > 1 and words[1] not in KINDS:
        from evalrun.commands.metric_facts import described

        print("\n\n".join(described(name) for name in words[1:]))
        return 0
    for word in words:
        if word not in KINDS:
            raise unknown("list", word, KINDS, "evalrun list")
    for kind in words or KINDS:
        if len(words) != 1:
            print(f"{kind}:")
        _print(_metrics() if kind == "metrics" else _files(KINDS[kind], config_dir))
    return 0


def _without_config_dir(argv: list[str]) -> tuple[list[str], str | None]:
    """(the other words, the folder of --config-dir)."""
    words, config_dir = [], None
    rest = iter(argv)
    for word in rest:
        if word.startswith("--config-dir="):
            config_dir = word.partition("=")[2]
        elif word == "--config-dir":
            config_dir = next(rest, None)
            if config_dir is None:
                raise Fault("--config-dir needs a folder.")
        else:
            words.append(word)
    return words, config_dir


def _print(rows: list[tuple[str, str]]) -> None:
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        print(f"  {name:<{width}}  {visible(text)}".rstrip())


def _files(group: str, config_dir: str | None) -> list[tuple[str, str]]:
    return [
        (name, _described(path)) for name, path in sorted(places.names(group, config_dir).items())
    ]


def _described(path: Path) -> str:
    """The `description:` of a task, else its first comment (Hydra's headers aside), else the
    tasks that it sets.
    """
    comment, names = "", []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("description:"):
            return line.partition(":")[2].strip().strip("'\"")
        if line.startswith("#") and "@package" not in line and not comment:
            comment = line.lstrip("# ")
        if "override /task:" in line:
            names.append(line.partition(":")[2].strip())
    return comment or ", ".join(names)


def _metrics() -> list[tuple[str, str]]:
    from evalrun.commands.metric_facts import one_line
    from evalrun.metrics import METRICS

    rows = [(key, one_line(key)) for key in METRICS]
    # Their code is not imported for a list: only for the metric that a command names.
    rows += [(key, f"of the installed package {of}") for key, of in METRICS.offered().items()]
    return sorted(rows)
