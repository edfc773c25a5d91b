"""sys.argv -> what Hydra may see. Flags become overrides; task and metric strings are taken apart.

Hydra's own grammar knows neither `gsm8k@k=2&n=8` nor `pass@k:k=10&n=16`, takes 1.10 for the number 1.1, and
wants its flags first. So the command line is read here, and Hydra gets plain, quoted overrides.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from evalrun.cli import strings, texts
from evalrun.config.quoting import quoted
from evalrun.errors import Fault, unknown
from evalrun.metrics.naming import parse_metric, parse_task

VALUE_FLAGS = {"--mode": "mode", "-M": "mode", "--reuse": "reuse", "--limit": "limit"}
SWITCHES = {"--resume": "resume", "--dry-run": "dry_run", "--debug": "debug"}
HYDRA_SWITCHES = ("-m", "--multirun", "--resolve", "--hydra-help", "--info", "-i")
HYDRA_VALUE_FLAGS = ("--config-dir", "-cd", "--cfg", "-c", "--package", "-p", "--shell-completion", "-sc")
OTHER_FLAGS = ("--help", "-h", "--version")
MODES = ("all", "infer", "eval", "viz")


@dataclass
class Arguments:
    """The command line, read. overrides: in the order given, ready for Hydra. typed: the keys the user typed."""

    overrides: list[str] = field(default_factory=list)
    hydra_flags: list[str] = field(default_factory=list)
    flags: dict[str, str] = field(default_factory=dict)
    is_sweep: bool = False
    config_dir: str | None = None

    @property
    def typed(self) -> list[str]:
        """Keys of the overrides, without +, ++ and ~."""
        return [o.lstrip("+~").split("=", 1)[0] for o in self.overrides]

    def value(self, key: str) -> str | None:
        """The last value typed for `key`, unquoted; None where it was not typed."""
        found = None
        for override in self.overrides:
            name, _, value = override.lstrip("+").partition("=")
            if name == key:
                found = strings.unquote(value)
        return found


def read(argv: list[str]) -> Arguments:
    """Read everything after the program's name. Fault for whatever is not understood."""
    arguments = Arguments()
    raw: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word.startswith("-") and not word.startswith("-="):
            _read_flag(word, rest, arguments, raw)
        elif "=" in word or word.startswith("~"):
            raw.append(word)
        else:
            raise _stray(word)
    for override in raw:
        arguments.overrides += _rewritten(override, arguments.is_sweep)
    _refuse_contradictions(arguments)
    # The model varies slowest in a sweep, so that one engine serves all its jobs.
    arguments.overrides.sort(key=lambda o: 0 if o.startswith("model=") else 1)
    return arguments


def _read_flag(word: str, rest: list[str], arguments: Arguments, raw: list[str]) -> None:
    name, has_value, value = word.partition("=")
    if name in VALUE_FLAGS or name in HYDRA_VALUE_FLAGS:
        if not has_value:
            if not rest or (rest[0].startswith("-") and len(rest[0]) > 1):
                raise Fault(f"{name} needs a value, such as {name} {_example(name)}.")
            value = rest.pop(0)
        if name in VALUE_FLAGS:
            raw.append(f"{VALUE_FLAGS[name]}={value}")
            return
        if name in ("--config-dir", "-cd"):
            arguments.config_dir = value
        arguments.hydra_flags += [name, value]
    elif name in SWITCHES and not has_value:
        raw.append(f"{SWITCHES[name]}=true")
    elif name in HYDRA_SWITCHES and not has_value:
        arguments.is_sweep = arguments.is_sweep or name in ("-m", "--multirun")
        arguments.hydra_flags.append(name)
    else:
        known = [*VALUE_FLAGS, *SWITCHES, *HYDRA_SWITCHES, *HYDRA_VALUE_FLAGS, *OTHER_FLAGS]
        raise unknown("flag", name, known, "the command line")


def _example(flag: str) -> str:
    return {"--mode": "eval", "-M": "eval", "--reuse": "latest", "--limit": "16"}.get(flag, "VALUE")


def _stray(word: str) -> Fault:
    guess = ""
    if word in MODES:
        guess = f" Did you mean --mode {word}?"
    return Fault(
        f"{word!r} is neither a flag nor a setting of the form key=value.{guess} Examples: model=smollm2, "
        "task=gsm8k, --mode eval. `evalrun --help` shows all."
    )


def _rewritten(override: str, is_sweep: bool) -> list[str]:
    key, sign, value = override.partition("=")
    if not sign:
        return [override]
    bare = key.lstrip("+")
    if bare == "task":
        return _task(value, is_sweep)
    if bare == "metric":
        return _metric(value, is_sweep)
    if bare == "mode":
        _check_mode(value)
    if bare == "tasks" or bare == "max_samples" or bare == "metrics":
        raise unknown("setting", bare, [*texts.ROOT_KEYS, "task", "metric", "limit"], "the command line")
    if bare in ("model", "suite") and not is_sweep and len(strings.split(value)) > 1:
        raise _ambiguous(bare, value)
    if texts.is_text(bare) and not (is_sweep and len(strings.split(value)) > 1):
        return [f"{key}={strings.quoted_text(value)}"]
    return [override]


def _check_mode(value: str) -> None:
    mode = strings.unquote(value)
    if len(strings.split(mode)) > 1:
        raise Fault(f"mode={value} would sweep over modes. Run one mode a command: --mode infer, then --mode eval.")
    if mode not in MODES:
        raise unknown("mode", mode, MODES, "--mode")


def _ambiguous(key: str, value: str) -> Fault:
    listed = f"{key}=[{value}] asks for them in one run, or " if key == "task" else ""
    return Fault(f"{key}={value} is ambiguous: {listed}`evalrun -m {key}={value}` makes a sweep of one run each.")


def _task(value: str, is_sweep: bool) -> list[str]:
    elements, is_list = strings.elements(value)
    if is_sweep and not is_list:
        return [f"task={','.join(_plain_in_sweep('task', e) for e in elements)}"]
    if len(elements) > 1 and not is_list:
        raise _ambiguous("task", value)
    names, more = [], []
    for element in elements:
        task = parse_task(element)
        if is_sweep:
            _plain_in_sweep("task", element)
        names.append(task.name)
        more += [f"+task_params.{task.name}.{k}={strings.hydra_value(v)}" for k, v in task.params.items()]
        if task.shots is not None:
            more.append(f"tasks.{task.name}.fewshot.n={task.shots}")
        if task.subset is not None:
            more.append(f"tasks.{task.name}.subsets=[{quoted(task.subset)}]")
    _refuse_twice("task", names)
    return [f"task={names[0]}" if not is_list else f"task=[{','.join(names)}]", *more]


def _metric(value: str, is_sweep: bool) -> list[str]:
    elements, is_list = strings.elements(value)
    if is_sweep and not is_list:
        return [f"metric={','.join(_plain_in_sweep('metric', e) for e in elements)}"]
    if len(elements) > 1 and not is_list:
        raise _ambiguous_metric(value)
    names, more = [], []
    for element in elements:
        name, params = parse_metric(element)
        if is_sweep and params:
            _plain_in_sweep("metric", element)
        names.append(name)
        more += [f"metrics.{name}.{k}={strings.hydra_value(v)}" for k, v in params.items()]
    _refuse_twice("metric", names)
    return [f"metric={names[0]}" if not is_list else f"metric=[{','.join(names)}]", *more]


def _ambiguous_metric(value: str) -> Fault:
    return Fault(f"metric={value} is ambiguous: write 'metric=[{value}]' to score all of them in one run.")


def _plain_in_sweep(key: str, element: str) -> str:
    name = parse_metric(element)[0] if key == "metric" else parse_task(element).name
    if (key == "task" and name != element) or (key == "metric" and ":" in element):
        raise Fault(
            f"{key}={element} has parameters, which a sweep (-m) cannot carry. Give them as settings of their own "
            "(num_return_sequences=8, tasks.NAME.fewshot.n=5), or run without -m."
        )
    return name


def _refuse_twice(key: str, names: list[str]) -> None:
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        form = f"{twice[0]}:k=[1,2,4]&n=16" if key == "metric" else f"{twice[0]}"
        raise Fault(
            f"{key} {', '.join(twice)} was asked for more than once. Name it once, with lists: '{key}={form}'."
        )


def _refuse_contradictions(arguments: Arguments) -> None:
    if arguments.value("suite") not in (None, "null") and arguments.value("task") is not None:
        raise Fault(
            f"suite={arguments.value('suite')} and task={arguments.value('task')} contradict each other: a suite "
            "names its tasks. Say one of them."
        )
    if arguments.is_sweep and arguments.value("reuse") is not None:
        raise Fault("--reuse names one run, and -m makes many. Leave --reuse out: each job finds its run by itself.")
