"""The source files of the house, parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """One Python file. path: below the root, with slashes."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file."""
        return ast.parse(self.text)

    @property
    def module(self) -> str:
        """Dotted name."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @cached_property
    def lazy_free(self) -> list[ast.Import | ast.ImportFrom]:
        """Imports that run when the file is loaded: not in a function, not for type checkers
        only.
        """
        return list(_loading_imports(self.tree.body))


def sources(root: Path, *folders: str) -> list[Source]:
    """All Python files of these folders of the root."""
    paths = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    return [
        Source(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
        for path in paths
    ]


def _loading_imports(body: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _loading_imports(node.orelse)
        else:
            for part in ("body", "orelse", "finalbody"):
                yield from _loading_imports(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _loading_imports(handler.body)


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Dotted names that an import may load: `from a import b` gives a and a.b."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    module = node.module or ""
    return [module, *(f"{module}.{alias.name}" for alias in node.names)]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
