"""Words -> what Hydra may see. Flags become overrides; task and metric strings are taken apart.

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
from evalrun.metrics import foreign
from evalrun.runs.words.choices import ambiguous, metric_overrides, subsets_of, task_overrides
from evalrun.runs.words.flags import SHOWN, ReadFlag, read_flag

MODES = ("all", "infer", "eval", "viz")
GROUPS = ("model", "task", "suite", "metric", "judge", "summary")


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
    is_sweep: bool = False
    config_dir: str | None = None
    subsets: list[tuple[str, str]] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)

    def add(self, flag: ReadFlag) -> None:
        """Take what a flag means beside settings."""
        self.hydra_flags += flag.hydra
        self.is_sweep = self.is_sweep or flag.is_sweep
        self.config_dir = self.config_dir if flag.config_dir is None else flag.config_dir

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
            flag = read_flag(word, rest)
            raw += [flag.setting] if flag.setting is not None else []
            arguments.add(flag)
        elif "=" in word.lstrip("+~=") and word.lstrip("+~")[:1] != "=":
            raw.append(word)
        else:
            raise _stray(word, commands)
    load_own_metrics(raw)
    _load_offered_metrics(raw)
    for override in _last_wins(raw):
        if override.startswith("task=") and not arguments.is_sweep:
            arguments.subsets = subsets_of(override.removeprefix("task="))
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


def _load_offered_metrics(raw: list[str]) -> None:
    """Import the metrics of installed packages that the command line names."""
    for override in raw:
        key, _, value = override.partition("=")
        if key == "metric":
            for choice in grammar.split(value):
                for name in grammar.elements(choice, key)[0]:
                    foreign.register_entry_point(name.partition(":")[0].strip())


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
        return task_overrides(value, is_sweep)
    if bare == "metric":
        return metric_overrides(value, is_sweep)
    if bare == "mode":
        _check_mode(value)
    what = _checked(bare, value)
    choices = grammar.split(value)
    if (
        len(choices) > 1
        and not is_sweep
        and what not in (KeyKind.text, KeyKind.texts, KeyKind.column)
    ):
        raise ambiguous(bare, value)
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

    Fault for a key that does not exist, or that the command line may not set.
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
