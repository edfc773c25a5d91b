"""Flags: ours become settings, Hydra's are passed on."""

from __future__ import annotations

from dataclasses import dataclass

from evalrun.errors import Fault, unknown, visible

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
SHOWN = {"--cfg", "-c", "--info", "-i", "--hydra-help", "--shell-completion", "-sc"}
"""Flags with which Hydra prints something and runs nothing."""


@dataclass(frozen=True)
class ReadFlag:
    """What one flag means.

    Attributes:
        setting: key=value, where it is a setting of ours; else None.
        hydra: the words for Hydra.
        config_dir: the folder of --config-dir; else None.
        is_sweep: it asks for a sweep.
    """

    setting: str | None = None
    hydra: tuple[str, ...] = ()
    config_dir: str | None = None
    is_sweep: bool = False


def read_flag(word: str, rest: list[str]) -> ReadFlag:
    """Read one flag; its value is taken from the front of `rest` where it stands there.

    Fault for a flag that does not exist, or a value that it does not take.
    """
    name, has_value, value = word.partition("=")
    if name in VALUE_FLAGS or name in HYDRA_VALUE_FLAGS:
        return _with_value(name, value if has_value else _next(name, rest))
    if name in SWITCHES:
        if has_value and value not in ("true", "false"):
            raise Fault(f"{name} is a switch: write {name}, or leave it out; got {visible(word)}.")
        return ReadFlag(setting=f"{SWITCHES[name]}={value or 'true'}")
    if name in HYDRA_SWITCHES and not has_value:
        if name in ("--shell-completion", "-sc"):
            return ReadFlag(hydra=(name, _completion(rest)))
        return ReadFlag(hydra=(name,), is_sweep=name in ("-m", "--multirun"))
    raise unknown("flag", name, FLAGS, "the command line")


def _with_value(name: str, value: str) -> ReadFlag:
    if name in VALUE_FLAGS:
        return ReadFlag(setting=f"{VALUE_FLAGS[name]}={value}")
    allowed = HYDRA_VALUE_FLAGS[name]
    if allowed is not None and value not in allowed:
        raise unknown("choice", value, allowed, name)
    config_dir = value if name in ("--config-dir", "-cd") else None
    return ReadFlag(hydra=(name, value), config_dir=config_dir)


def _next(name: str, rest: list[str]) -> str:
    if not rest or _is_flag(rest[0]):
        raise Fault(f"{name} needs a value, such as {name} {_example(name)}.")
    return rest.pop(0)


def _completion(rest: list[str]) -> str:
    """The word after --shell-completion. Fault where it is not one of Hydra's."""
    word = rest.pop(0) if rest else ""
    command, _, shell = word.partition("=")
    if command not in ("install", "uninstall", "query") or shell not in ("bash", "zsh", "fish"):
        raise Fault(
            "--shell-completion needs install=bash, uninstall=bash (or zsh, fish); got "
            f"{visible(word)!r}."
        )
    return word


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
