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
    words = [w for w in argv if not w.startswith("--config-dir")]
    config_dir = next((w.partition("=")[2] for w in argv if w.startswith("--config-dir=")), None)
    if "--config-dir" in argv:
        place = argv.index("--config-dir") + 1
        if place == len(argv):
            raise Fault("--config-dir needs a folder.")
        config_dir = argv[place]
        words.remove(config_dir)
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
        rows = _metrics() if kind == "metrics" else _files(KINDS[kind], config_dir)
        width = max((len(name) for name, _ in rows), default=0)
        for name, text in rows:
            print(f"  {name:<{width}}  {visible(text)}".rstrip())
    return 0


def _files(group: str, config_dir: str | None) -> list[tuple[str, str]]:
    return [
        (name, _described(path)) for name, path in sorted(places.names(group, config_dir).items())
    ]


def _described(path: Path) -> str:
    """The `description:` of a task, else the first comment that is no Hydra header, else what
    the file sets.
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

    return [(key, one_line(key)) for key in sorted(METRICS)]
