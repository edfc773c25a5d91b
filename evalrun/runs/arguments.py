"""sys.argv -> what Hydra may see. Flags become overrides; task and metric strings are taken apart.

Hydra's own grammar knows neither `gsm8k@k=2&n=8` nor `pass@k:k=10&n=16`, takes 1.10 for the number
1.1, and wants its flags first. So the command line is read here, and Hydra gets plain, quoted
overrides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from evalrun import grammar
from evalrun.config.keys import PEERS, KeyKind, kind, unknown_key
from evalrun.errors import Fault, nearest, unknown, visible
from evalrun.metrics import METRICS
from evalrun.metrics.create import parameter_names
from evalrun.metrics.naming import parse_metric
from evalrun.metrics.task_strings import TaskString, parse_task

VALUE_FLAGS = {"--mode": "mode", "-M": "mode", "--reuse": "reuse", "--limit": "limit"}
SWITCHES = {"--resume": "resume", "--dry-run": "dry_run", "--debug": "debug"}
HYDRA_SWITCHES = ("-m", "--multirun", "--resolve", "--hydra-help", "--shell-completion", "-sc")
HYDRA_VALUE_FLAGS = {
    "--config-dir": None,
    "-cd": None,
    "--cfg": ("job", "hydra", "all"),
    "-c": ("job", "hydra", "all"),
    "--package": None,
    "-p": None,
    "--info": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
    "-i": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
}
OTHER_FLAGS = ("--help", "-h", "--version")
FLAGS = (*VALUE_FLAGS, *SWITCHES, *HYDRA_SWITCHES, *HYDRA_VALUE_FLAGS, *OTHER_FLAGS)
MODES = ("all", "infer", "eval", "viz")
GROUPS = ("model", "task", "suite", "metric", "judge", "summary")
SHOWN = {"--cfg", "-c", "--info", "-i", "--hydra-help", "--shell-completion", "-sc"}
"""Flags with which Hydra prints something and runs nothing."""


@dataclass
class Arguments:
    """The command line, read.

    Attributes:
        overrides: in the order given, ready for Hydra.
        subsets: (task, subset) of every task:subset.
        stored: those of the overrides that come from the run of --reuse.
    """

    overrides: list[str] = field(default_factory=list)
    hydra_flags: list[str] = field(default_factory=list)
    flags: dict[str, str] = field(default_factory=dict)
    is_sweep: bool = False
    config_dir: str | None = None
    subsets: list[tuple[str, str]] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)

    @property
    def given(self) -> list[str]:
        """The keys that the command itself gives: `typed` less those of a stored run."""
        return [
            key for key, o in zip(self.typed, self.overrides, strict=True) if o not in self.stored
        ]

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
                found = grammar.unquote(value)
        return found


def read(argv: Sequence[str], commands: Sequence[str] = ()) -> Arguments:
    """Read everything after the program's name. Fault for whatever is not understood.

    Args:
        argv: the words.
        commands: words that a first word may have meant, for the hint of an error.
    """
    arguments = Arguments()
    raw: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if not word.isascii() and any("\ud800" <= c <= "\udfff" for c in word):
            raise Fault(
                f"{visible(word)!r} is not UTF-8 text. Set a UTF-8 locale, or write the text into "
                "a file."
            )
        if word.startswith("-"):
            _read_flag(word, rest, arguments, raw)
        elif "=" in word.lstrip("+~=") and word.lstrip("+~")[:1] != "=":
            raw.append(word)
        else:
            raise _stray(word, commands)
    load_own_metrics(raw)
    for override in _last_wins(raw):
        if override.startswith("task=") and not arguments.is_sweep:
            arguments.subsets = _subsets(override.removeprefix("task="))
        arguments.overrides += _rewritten(override, arguments.is_sweep)
    _refuse_contradictions(arguments)
    # The model varies slowest in a sweep, so that one engine serves all its jobs.
    arguments.overrides.sort(key=lambda o: 0 if o.startswith("model=") else 1)
    return arguments


def load_own_metrics(raw: list[str]) -> None:
    """Import the user's own metrics that the command line names, so that metric= may name them."""
    for override in raw:
        key, _, value = override.lstrip("+").partition("=")
        if key == "metric_files" and value not in ("", "null"):
            from evalrun.planning import own_metrics

            for name in grammar.elements(value, key)[0]:
                own_metrics.load(grammar.unquote(name), key)


def _last_wins(raw: list[str]) -> list[str]:
    """Without the earlier ones of several task= or metric=: their parameters would stay and
    apply to the last.
    """
    last = {o.partition("=")[0]: i for i, o in enumerate(raw)}
    return [
        o
        for i, o in enumerate(raw)
        if (key := o.partition("=")[0]) not in ("task", "metric") or last[key] == i
    ]


def _read_flag(word: str, rest: list[str], arguments: Arguments, raw: list[str]) -> None:
    name, has_value, value = word.partition("=")
    if name in VALUE_FLAGS or name in HYDRA_VALUE_FLAGS:
        if not has_value:
            if not rest or _is_flag(rest[0]):
                raise Fault(f"{name} needs a value, such as {name} {_example(name)}.")
            value = rest.pop(0)
        if name in VALUE_FLAGS:
            raw.append(f"{VALUE_FLAGS[name]}={value}")
            return
        allowed = HYDRA_VALUE_FLAGS[name]
        if allowed is not None and value not in allowed:
            raise unknown("choice", value, allowed, name)
        if name in ("--config-dir", "-cd"):
            arguments.config_dir = value
        arguments.hydra_flags += [name, value]
    elif name in SWITCHES:
        if has_value and value not in ("true", "false"):
            raise Fault(f"{name} is a switch: write {name}, or leave it out; got {visible(word)}.")
        raw.append(f"{SWITCHES[name]}={value or 'true'}")
    elif name in HYDRA_SWITCHES and not has_value:
        arguments.is_sweep = arguments.is_sweep or name in ("-m", "--multirun")
        arguments.hydra_flags.append(name)
        if name in ("--shell-completion", "-sc"):
            _read_completion(rest, arguments)
    else:
        raise unknown("flag", name, FLAGS, "the command line")


def _read_completion(rest: list[str], arguments: Arguments) -> None:
    word = rest.pop(0) if rest else ""
    command, _, shell = word.partition("=")
    if command not in ("install", "uninstall", "query") or shell not in ("bash", "zsh", "fish"):
        raise Fault(
            "--shell-completion needs install=bash, uninstall=bash (or zsh, fish); got "
            f"{visible(word)!r}."
        )
    arguments.hydra_flags.append(word)


def _is_flag(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and not word[1].isdigit()


def _example(flag: str) -> str:
    examples = {
        "--mode": "eval",
        "-M": "eval",
        "--reuse": "latest",
        "--limit": "16",
        "--cfg": "job",
        "-c": "job",
    }
    return examples.get(flag, "DIR" if "-c" in flag else "defaults" if "-i" in flag else "model")


def _stray(word: str, commands: Sequence[str]) -> Fault:
    guess = ""
    if word in MODES:
        guess = f" Did you mean --mode {word}?"
    elif word.startswith("~"):
        guess = " Nothing is deleted from a configuration: key=null makes a setting absent."
    elif hint := nearest(word, commands):
        guess = f" Did you mean `evalrun {hint}`, as the first word?"
    return Fault(
        f"{visible(word)!r} is neither a flag nor a setting of the form key=value.{guess} "
        "Examples: model=smollm2, task=gsm8k, --mode eval. `evalrun --help` shows all."
    )


def _rewritten(override: str, is_sweep: bool) -> list[str]:
    key, _, value = override.partition("=")
    bare = key.lstrip("+~")
    if key.startswith("~"):
        raise Fault(
            f"~{bare} would delete a setting, which the configuration does not allow. Write "
            f"{bare}=null."
        )
    if bare in GROUPS and key != bare:
        raise Fault(
            f"{key}={visible(value)}: write {bare}={visible(value)}; a choice is set, never added."
        )
    if bare == "task":
        return _task(value, is_sweep)
    if bare == "metric":
        return _metric(value, is_sweep)
    if bare == "mode":
        _check_mode(value)
    what = _checked(bare, value)
    choices = grammar.split(value)
    if (
        len(choices) > 1
        and not is_sweep
        and what not in (KeyKind.text, KeyKind.texts, KeyKind.column)
    ):
        raise _ambiguous(bare, value)
    if not is_sweep or len(choices) == 1:
        choices = [value]
    if what in (KeyKind.text, KeyKind.column, KeyKind.texts):
        choices = [_quoted(choice, what) for choice in choices]
    # A key inside a free mapping (dataset.columns, model.engine) may be new: ++ sets it either way.
    sign = "++" if what in (KeyKind.open, KeyKind.column, KeyKind.mapping) else ""
    return [f"{sign}{bare}={','.join(choices)}"]


def _quoted(value: str, what: KeyKind) -> str:
    if what is KeyKind.texts or (what is KeyKind.column and value.startswith("[")):
        return grammar.quoted_texts(value)
    return grammar.quoted_text(value)


def _checked(key: str, value: str) -> KeyKind | None:
    """What the key holds; None for a choice of a file.

    Fault where there is no such key, or it is not for here.
    """
    if key in GROUPS:
        return None
    if key.split(".")[0].split("/")[0] == "hydra":
        if key.startswith(("hydra.sweeper.", "hydra/sweeper")):
            return None
        raise Fault(
            f"{visible(key)}: evalrun claims its run folders and writes its logs itself, so "
            "Hydra's own settings are not for the command line. output_dir=DIR says where runs go."
        )
    if key == "dataset":
        raise Fault(
            f"dataset={visible(value)}: a task names its dataset. Say task=NAME, or "
            "dataset.path=FILE to give the only task other data."
        )
    if "@" in key:
        raise Fault(
            f"{visible(key)}: the name of a setting has no @. Metrics go by plain names here: "
            "pass_at_k."
        )
    what = kind(key)
    if what is KeyKind.mapping and key not in PEERS and not value.startswith("{"):
        raise Fault(
            f"{key} holds settings of its own. Write {key}.KEY=VALUE, or '{key}={{KEY: VALUE}}'."
        )
    if what is None or key in PEERS or (what is KeyKind.section and "{" not in value):
        raise unknown_key(key, "the command line")
    return what


def _check_mode(value: str) -> None:
    mode = grammar.unquote(value)
    if len(grammar.split(mode)) > 1:
        raise Fault(
            f"mode={value} would sweep over modes. Run one mode a command: --mode infer, then "
            "--mode eval."
        )
    if mode not in MODES:
        raise unknown("mode", mode, MODES, "--mode")


def _ambiguous(key: str, value: str) -> Fault:
    listed = f"{key}=[{value}] asks for them in one run, or " if key == "task" else ""
    return Fault(
        f"{key}={value} is ambiguous: {listed}`evalrun -m {key}={value}` makes a sweep of one run "
        "each."
    )


def _task(value: str, is_sweep: bool) -> list[str]:
    if is_sweep:
        return [f"task={','.join(_choice('task', choice) for choice in grammar.split(value))}"]
    names, is_list = grammar.elements(value, "task")
    if len(names) > 1 and not is_list:
        raise _ambiguous("task", value)
    plain, more = [], []
    for task, subsets in _together([parse_task(element) for element in names]):
        plain.append(task.name)
        more += [
            f"+task_params.{task.name}.{k}={grammar.hydra_value(v)}" for k, v in task.params.items()
        ]
        if task.shots is not None:
            more.append(f"tasks.{task.name}.fewshot.n={task.shots}")
        if subsets:
            more.append(f"tasks.{task.name}.subsets={grammar.hydra_value(subsets)}")
    _refuse_twice("task", plain)
    return [_listed("task", plain, is_list), *more]


def _together(tasks: list[TaskString]) -> list[tuple[TaskString, list[str]]]:
    """Each task with its subsets: `a:x,a:y` with equal parameters is one task of two subsets."""
    found: dict[object, tuple[TaskString, list[str]]] = {}
    for place, task in enumerate(tasks):
        is_part = task.subset is not None
        key = (task.name, repr(task.params), task.shots) if is_part else place
        subsets = found.setdefault(key, (task, []))[1]
        if is_part and task.subset in subsets:
            _refuse_twice("task", [f"{task.name}:{task.subset}"] * 2)
        subsets += [task.subset] if task.subset is not None else []
    return list(found.values())


def _subsets(value: str) -> list[tuple[str, str]]:
    named = [parse_task(element) for element in grammar.elements(value, "task")[0]]
    return [(task.name, task.subset) for task in named if task.subset is not None]


def _metric(value: str, is_sweep: bool) -> list[str]:
    if is_sweep:
        return [f"metric={','.join(_choice('metric', choice) for choice in grammar.split(value))}"]
    names, is_list = grammar.elements(value, "metric")
    if len(names) > 1 and not is_list:
        raise Fault(
            f"metric={value} is ambiguous: write 'metric=[{value}]' to score all of them in one "
            "run."
        )
    plain, more = [], []
    for element in names:
        key, params = parse_metric(element)
        for name in params:
            if name not in parameter_names(METRICS.get(key)):
                raise unknown(
                    "parameter",
                    name,
                    parameter_names(METRICS.get(key)),
                    f"metric {visible(element)}",
                )
        plain.append(key)
        more += [f"metrics.{key}.{k}={grammar.hydra_value(v)}" for k, v in params.items()]
    _refuse_twice("metric", plain)
    return [_listed("metric", plain, is_list), *more]


def _listed(key: str, names: list[str], is_list: bool) -> str:
    return f"{key}=[{','.join(names)}]" if is_list else f"{key}={names[0]}"


def _choice(key: str, choice: str) -> str:
    """One choice of a sweep, a name or a list of names. Fault for parameters."""
    names, is_list = grammar.elements(choice, key)
    plain = [parse_metric(n)[0] if key == "metric" else parse_task(n).name for n in names]
    for name, element in zip(plain, names, strict=True):
        if (key == "task" and name != element) or (key == "metric" and ":" in element):
            raise Fault(
                f"{key}={element} has parameters, which a sweep (-m) cannot carry. Give them as "
                "settings of their own (num_return_sequences=8, tasks.NAME.fewshot.n=5), or run "
                "without -m."
            )
    _refuse_twice(key, plain)
    return _listed(key, plain, is_list).partition("=")[2]


def _refuse_twice(key: str, names: list[str]) -> None:
    twice = sorted({n for n in names if names.count(n) > 1})
    if not twice:
        return
    way = f"Name it once: {key}={twice[0]}."
    if key == "metric" and twice[0] in METRICS and "k" in parameter_names(METRICS.get(twice[0])):
        way = f"Name it once, with a list: 'metric={METRICS.get(twice[0]).display}:k=[1,2,4]&n=16'."
    raise Fault(f"{key} {', '.join(twice)} was asked for more than once. {way}")


def _refuse_contradictions(arguments: Arguments) -> None:
    if arguments.value("suite") not in (None, "null") and arguments.value("task") is not None:
        raise Fault(
            f"suite={arguments.value('suite')} and task={arguments.value('task')} contradict each "
            "other: a suite names its tasks. Say one of them."
        )
    if arguments.is_sweep and arguments.value("reuse") is not None:
        raise Fault(
            "--reuse names one run, and -m makes many. Leave --reuse out: each job finds its run "
            "by itself."
        )
    shown = [flag for flag in arguments.hydra_flags if flag in SHOWN]
    if len(shown) > 1 or (shown and arguments.is_sweep):
        both = " and ".join([*shown, *(["-m"] if arguments.is_sweep else [])])
        raise Fault(f"{both} do not go together. Give one of them.")
    for flag in ("--resolve", "--package", "-p"):
        if flag in arguments.hydra_flags and not {"--cfg", "-c"} & set(shown):
            raise Fault(f"{flag} changes what --cfg prints. Give it with --cfg job.")
