"""Laws on the shape of the house: sizes, complexity, rooms, one meaning for each name."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from support.house_source import Source, functions

MAX_FILE_LINES = 400
MAX_TEST_LINES = 500  # a test file is a list of cases
MAX_COMPLEXITY = 15
MAX_ROOM_FILES = 13

MAX_FUNCTION_LINES = 50
LONG_FILES = ("tests/support/mock_server.py",)  # one server of many kinds of faults, taken as it is

# File names that mean the same in every room that has them.
SHARED_FILE_NAMES = {
    "base": "the types that the rest of the room is built on",
    "backend": "the Backend of an engine",
    "scorer": "the log-likelihood scorer of an engine",
    "score": "scoring: the stage, and the command of that word",
}


def sizes(files: Sequence[Source]) -> list[str]:
    """Files up to 400 lines (tests 500), functions up to 50."""
    found = []
    for file in files:
        if file.path in LONG_FILES:
            continue
        n_lines = len(file.text.splitlines())
        most = MAX_TEST_LINES if file.path.startswith("tests/") else MAX_FILE_LINES
        if n_lines > most:
            found.append(f"{file.path}: {n_lines} lines, more than {most}: split it by meaning")
        for node in functions(file.tree):
            length = (node.end_lineno or 0) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                found.append(
                    f"{file.path}:{node.lineno}: {node.name} has {length} lines, more than 50"
                )
    return found


def complexity(files: Sequence[Source]) -> list[str]:
    """No function has a cyclomatic complexity above 15: one more than its decisions (McCabe 1976).

    Decisions: if, elif, conditional expressions, loops, comprehensions and their conditions,
    and/or, except, match cases, assert.
    """
    return [
        f"{file.path}:{node.lineno}: {node.name} has complexity {n}, more than {MAX_COMPLEXITY}"
        for file in files
        for node in functions(file.tree)
        if (n := 1 + sum(map(_decisions, ast.walk(node)))) > MAX_COMPLEXITY
    ]


def _decisions(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    single = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert)
    return int(isinstance(node, (*single, ast.match_case)))


def rooms(files: Sequence[Source]) -> list[str]:
    """A folder holds about 12 files at most, and its first line says what it is for."""
    found = []
    folders: dict[str, list[Source]] = {}
    for file in files:
        folders.setdefault(file.path.rpartition("/")[0], []).append(file)
    for folder, inside in folders.items():
        if len(inside) > MAX_ROOM_FILES:
            found.append(f"{folder}: {len(inside)} files, more than {MAX_ROOM_FILES}")
        door = next((f for f in inside if f.path.endswith("/__init__.py")), None)
        first = (ast.get_docstring(door.tree) or "") if door else ""
        if len(first.partition("\n")[0]) < 20 or first.startswith("See the files"):
            found.append(f"{folder}/__init__.py: no sentence that says what the room is for")
    return found


def one_meaning(files: Sequence[Source]) -> list[str]:
    """No file name and no class name stands in two rooms with two meanings."""
    found = []
    paths: dict[str, list[str]] = {}
    classes: dict[str, list[str]] = {}
    for file in files:
        name = file.path.rpartition("/")[2].removesuffix(".py")
        if name not in ("__init__", *SHARED_FILE_NAMES):
            paths.setdefault(name, []).append(file.path)
        for node in file.tree.body:
            defined = node.name if isinstance(node, ast.ClassDef) else _alias_name(node)
            if defined and not defined.startswith("_"):
                classes.setdefault(defined, []).append(file.path)
    for name, at in {**paths, **{f"class {k}": v for k, v in classes.items()}}.items():
        if len(at) > 1:
            found.append(f"{name} stands in {', '.join(at)}: one name, one meaning")
    return found


def _alias_name(node: ast.stmt) -> str | None:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id if "TypeAlias" in ast.unparse(node.annotation) else None
    return None


def own_names(files: Sequence[Source]) -> list[str]:
    """No module of the package is imported under the name of another one."""
    modules = {file.module.rpartition(".")[2] for file in files}
    known = {file.module for file in files}
    return [
        f"{file.path}:{node.lineno}: {alias.name} is imported as {alias.asname}, which is another"
        for file in files
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname in modules and f"{node.module}.{alias.name}" in known
        if alias.asname != alias.name
    ]
