"""The laws of the house as functions: parsed source files in, one line per violation out."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from support.house_shape import complexity, one_meaning, own_names, rooms, sizes
from support.house_source import Source, functions, imported

HEAVY = {"torch", "vllm", "transformers", "datasets", "pandas", "scipy.stats", "aiohttp", "rich"}
# itself loaded only by the engine that draws
HEAVY_AT_TOP = {"evalrun/backends/hf/token_draws.py": {"torch"}}

# External package -> where it may be imported at all, lazily or not.
ONLY_IN = {
    "hydra": ("evalrun/cli/", "evalrun/runs/", "evalrun/config/"),
    "omegaconf": ("evalrun/cli/", "evalrun/runs/", "evalrun/config/"),
    "torch": ("evalrun/backends/",),
    "transformers": ("evalrun/backends/",),
    "vllm": ("evalrun/backends/",),
    "datasets": ("evalrun/tasks/sources/hub.py",),
    "aiohttp": ("evalrun/backends/",),
    "pandas": ("evalrun/stages/", "evalrun/runs/", "evalrun/api.py"),
    "rich": ("evalrun/cli/", "evalrun/commands/", "evalrun/runs/", "evalrun/stages/"),
    "pyarrow": (
        "evalrun/store/",
        "evalrun/tasks/sources/table_files.py",
        "evalrun/backends/replay/library.py",
    ),
}

# Imports by name, which no contract sees: the public functions, the backend or command that was
# asked for, every module of the metrics.
BY_NAME = (
    "evalrun/__init__.py",
    "evalrun/backends/registration.py",
    "evalrun/commands/__init__.py",
    "evalrun/metrics/__init__.py",
)

# The borders at which any fault becomes a state: one command, one sample, and (re-raised later) one
# signal.
BORDERS = {
    "evalrun/runs/border.py": {"shielded"},
    "evalrun/stages/scoring/sample_verdicts.py": {"_judge_all", "_judge_one", "_judge_quick"},
    "evalrun/workers/child.py": {"_answer", "_call"},  # one sample, in a worker process
    "evalrun/stages/scoring/estimates.py": {"_scored_rows", "_score_one"},
    "evalrun/backends/openai/http/event_loop.py": {"on_signal"},
}

PRINTING = (
    "evalrun/console.py",
    "evalrun/cli/",
    "evalrun/commands/",
    "evalrun/runs/",
    "evalrun/stages/",
)

NO_NAME = {"util", "utils", "helper", "helpers", "common", "manager", "misc"}
# Words of fields and arguments -> what to say instead. `example` is a few-shot example, `item` any
# entry of a list.
NO_WORD = {
    "instance": "doc", "replica": "sample", "repeat": "sample", "trial": "sample", "target": "gold",
    "reference": "gold", "experiment": "run",
}  # fmt: skip
QUESTION = ("is_", "has_", "was_", "may_", "needs_")
DURATION = re.compile(r"timeout|duration|delay|interval|elapsed")
UNDONE = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")
STAND_INS_FOR_ABSENT = (-1, -100, 999)


def docstrings(files: Sequence[Source]) -> list[str]:
    """Every module, public class and public function says what it is.

    A method may inherit its text from a base.
    """
    classes = {
        n.name: n for file in files for n in ast.walk(file.tree) if isinstance(n, ast.ClassDef)
    }
    found = [
        f"{file.path}: no module docstring" for file in files if not ast.get_docstring(file.tree)
    ]
    for file in files:
        found += [
            f"{file.path}:{line}: {name} has no docstring"
            for line, name in _bare(file.tree.body, classes)
        ]
    return found


def _bare(body: Iterable[ast.stmt], classes: dict[str, ast.ClassDef]) -> Iterator[tuple[int, str]]:
    for node in body:
        if not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node):
            yield node.lineno, node.name
        if isinstance(node, ast.ClassDef):
            for line, name in _bare(node.body, classes):
                if not _is_inherited(name, node, classes):
                    yield line, name if "." in name else f"{node.name}.{name}"


def _is_inherited(method: str, node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    for base in node.bases:
        parent = classes.get(ast.unparse(base).partition("[")[0].rpartition(".")[2])
        if parent is None or parent is node:
            continue
        if any(
            f.name == method and ast.get_docstring(f)
            for f in parent.body
            if isinstance(f, ast.FunctionDef)
        ):
            return True
        if _is_inherited(method, parent, classes):
            return True
    return False


def broad_excepts(files: Sequence[Source]) -> list[str]:
    """`except Exception` stands at the named borders only; elsewhere a broad handler raises on."""
    return [f"{file.path}:{line}: {what}" for file in files for line, what in _broad(file)]


def _broad(file: Source) -> Iterator[tuple[int, str]]:
    allowed = BORDERS.get(file.path, set())
    excused = {
        h
        for f in functions(file.tree)
        if f.name in allowed
        for h in ast.walk(f)
        if isinstance(h, ast.ExceptHandler)
    }
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ExceptHandler) and node not in excused:
            kind = "" if node.type is None else ast.unparse(node.type)
            is_broad = node.type is None or re.search(r"\b(Base)?Exception\b", kind)
            is_raised_on = (
                bool(node.body)
                and isinstance(node.body[-1], ast.Raise)
                and node.body[-1].exc is None
            )
            if is_broad and not is_raised_on:
                yield node.lineno, f"a broad `except {kind}` away from the borders"
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("suppress"):
            continue
        if any(ast.unparse(arg) in ("Exception", "BaseException") for arg in node.args):
            yield node.lineno, "suppress(Exception) hides every fault"


def heavy_imports(files: Sequence[Source]) -> list[str]:
    """Packages that take long to load are imported inside functions."""
    found = []
    for file in files:
        allowed = HEAVY_AT_TOP.get(file.path, set())
        for node in file.lazy_free:
            for name in imported(node):
                if any(name == h or name.startswith(h + ".") for h in HEAVY - allowed):
                    found.append(
                        f"{file.path}:{node.lineno}: {name} is loaded with the module; import it "
                        "where used"
                    )
                lazy = [path for path in HEAVY_AT_TOP if Source(path, "").module == name]
                if lazy:
                    found.append(
                        f"{file.path}:{node.lineno}: {name} loads {HEAVY_AT_TOP[lazy[0]]} with it"
                    )
    return found


def places(files: Sequence[Source]) -> list[str]:
    """Some packages are known in one room only, also lazily; imports by name stand in two files."""
    found = []
    for file in files:
        for node in ast.walk(file.tree):
            by_name = r"import_module$|^__import__$"
            is_other = file.path not in BY_NAME
            if (
                is_other
                and isinstance(node, ast.Call)
                and re.search(by_name, ast.unparse(node.func))
            ):
                found.append(
                    f"{file.path}:{node.lineno}: an import by name, which no contract sees"
                )
            if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
                root = imported(node)[0].partition(".")[0]
                if root in ONLY_IN and not file.path.startswith(ONLY_IN[root]):
                    found.append(
                        f"{file.path}:{node.lineno}: {root} is known only in "
                        f"{', '.join(ONLY_IN[root])}"
                    )
    return found


def circles(files: Sequence[Source]) -> list[str]:
    """No module imports itself through others, lazily or not. One line per circle."""
    known = {file.module for file in files}
    graph: dict[str, set[str]] = {}
    for file in files:
        nodes = [n for n in ast.walk(file.tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        graph[file.module] = {name for node in nodes for name in _modules(node, known)} - {
            file.module
        }
    found: list[str] = []
    done: set[str] = set()
    for start in graph:
        _walk(start, graph, [], done, found)
    return found


def _modules(node: ast.Import | ast.ImportFrom, known: set[str]) -> set[str]:
    """The modules that an import means: of `from package import module` the module alone."""
    if isinstance(node, ast.Import):
        return known & set(imported(node))
    module, *members = imported(node)
    inner = known & set(members)
    return inner if len(inner) == len(members) else inner | (known & {module})


def _walk(
    module: str, graph: dict[str, set[str]], path: list[str], done: set[str], found: list[str]
) -> None:
    if module in path:
        found.append(" > ".join([*path[path.index(module) :], module]))
        return
    if module in done:
        return
    for each in sorted(graph[module]):
        _walk(each, graph, [*path, module], done, found)
    done.add(module)


def prints(files: Sequence[Source]) -> list[str]:
    """Only cli, commands and stages speak to people."""
    return [
        f"{file.path}:{node.lineno}: print outside {', '.join(PRINTING)}"
        for file in files
        if not file.path.startswith(PRINTING)
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stderr.write")
    ]


def names(files: Sequence[Source]) -> list[str]:
    """No utils, helpers, common, manager; the words of the field for fields and arguments."""
    found = []
    for file in files:
        if NO_NAME & set(re.split(r"[/_.]", file.path)):
            found.append(f"{file.path}: a file is named for what it holds")
        for line, name, is_value in _named(file.tree):
            words = set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_"))
            if words & NO_NAME:
                found.append(f"{file.path}:{line}: {name} says nothing")
            found += [
                f"{file.path}:{line}: {name}: say {NO_WORD[w]}"
                for w in words & NO_WORD.keys()
                if is_value
            ]
    return found


def _named(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name, False
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg, True
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.lineno, node.target.id, True


def booleans(files: Sequence[Source], keys: Iterable[str]) -> list[str]:
    """A boolean field or argument is a question (is_, has_); durations end in _s. keys: names
    users write, exempt.
    """
    exempt = set(keys)
    found = []
    for file in files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name, kind = node.target.id, ast.unparse(node.annotation)
            elif isinstance(node, ast.arg) and node.annotation is not None:
                name, kind = node.arg, ast.unparse(node.annotation)
            else:
                continue
            is_boolean = re.fullmatch(r"(ClassVar\[)?bool( \| None)?\]?", kind) is not None
            if is_boolean and name not in exempt and not name.lstrip("_").startswith(QUESTION):
                found.append(
                    f"{file.path}:{node.lineno}: {name} is a boolean; name it is_{name} or "
                    f"has_{name}"
                )
            is_number = re.fullmatch(r"(int|float)( \| None)?", kind) is not None
            if is_number and DURATION.search(name.lower()) and not name.lower().endswith("_s"):
                found.append(
                    f"{file.path}:{node.lineno}: {name} is a duration; its unit is its suffix: "
                    f"{name}_s"
                )
    return found


def absent(files: Sequence[Source]) -> list[str]:
    """ "Absent" is None: no field or argument defaults to -1, -100 or 999."""
    found = []
    for file in files:
        for node in ast.walk(file.tree):
            values: list[ast.expr | None] = []
            if isinstance(node, ast.arguments):
                values = [*node.defaults, *node.kw_defaults]
            elif isinstance(node, ast.AnnAssign):
                values = [node.value]
            for value in filter(None, values):
                if ast.unparse(value) in {str(number) for number in STAND_INS_FOR_ABSENT}:
                    found.append(
                        f"{file.path}:{value.lineno}: {ast.unparse(value)} stands for absent; use "
                        "None"
                    )
    return found


def frozen(files: Sequence[Source]) -> list[str]:
    """Core types and metrics are frozen dataclasses with slots."""
    found = []
    for file in files:
        if not file.path.startswith(("evalrun/types/", "evalrun/metrics/")):
            continue
        for node in ast.walk(file.tree):
            for mark in node.decorator_list if isinstance(node, ast.ClassDef) else []:
                written = ast.unparse(mark)
                if written.startswith("dataclass") and not (
                    "frozen=True" in written and "slots=True" in written
                ):
                    found.append(f"{file.path}:{mark.lineno}: @{written} is not frozen with slots")
    return found


def undone(files: Sequence[Source]) -> list[str]:
    """Nothing is left for later."""
    return [
        f"{file.path}:{number}: {match[0]}"
        for file in files
        for number, line in enumerate(file.text.splitlines(), 1)
        if (match := UNDONE.search(line))
    ]


LAWS: dict[str, Callable[[Sequence[Source]], list[str]]] = {
    law.__name__: law
    for law in (
        sizes,
        complexity,
        docstrings,
        broad_excepts,
        heavy_imports,
        places,
        circles,
        prints,
        names,
        absent,
        frozen,
        rooms,
        one_meaning,
        own_names,
        undone,
    )
}
