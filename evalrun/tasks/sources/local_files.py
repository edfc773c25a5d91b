"""The files that a dataset path means: one file, or the files of a split in a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from evalrun.errors import Fault, nearest, unknown, visible
from evalrun.tasks.sources.forms import COMPRESSED, FORMS, UNREADABLE, form_of
from evalrun.types import DatasetPlan

PACKAGE = "package:"
DATA = Path(__file__).parents[1] / "data"
# datasets writes a hash behind the shard's number where it caches what a hub serves.
_PART = re.compile(r"(?P<split>.+)-\d+-of-(?P<of>\d+)(?:-[0-9a-f]{8,40})?")
_SAVED = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json")
"""What `save_to_disk` of the package datasets writes beside the data."""


def is_local(path: str, base_dir: Path | None = None) -> bool:
    """Whether a dataset path means a file or folder of this machine (or of the package), not a
    hub name.
    """
    if path.startswith((PACKAGE, "/", "./", "../", "~")) or path in (".", ".."):
        return True
    return form_of(path) is not None or resolved(path, base_dir).exists()


def is_file(path: str, base_dir: Path | None = None) -> bool:
    """Whether a dataset path means one file; its splits and names then say nothing."""
    return is_local(path, base_dir) and not resolved(path, base_dir).is_dir()


def resolved(path: str, base_dir: Path | None) -> Path:
    """The place that a dataset path means; relative ones start from `base_dir`."""
    if path.startswith(PACKAGE):
        return DATA / path.removeprefix(PACKAGE)
    return (base_dir or Path()) / Path(path).expanduser()


def files_of(dataset: DatasetPlan, base_dir: Path | None) -> list[Path]:
    """The files of a dataset, in order of their names.

    Fault: there is none, or it cannot be read.
    """
    if dataset.path.startswith(PACKAGE):
        name = dataset.path.removeprefix(PACKAGE)
        packaged = [each.name for each in DATA.iterdir() if form_of(each.name)]
        if name not in packaged:
            raise unknown("data file", name, packaged, "the package (dataset.path)")
        return [DATA / name]
    path = resolved(dataset.path, base_dir)
    if path.is_dir():
        return _files_of_split(path, dataset)
    if path.is_symlink() and not path.exists():
        raise Fault(
            f"dataset.path={visible(str(path))} is a link to {visible(os.readlink(path))}, which "
            "is not there."
        )
    if not path.exists():
        raise Fault(_no_such_file(path))
    if not path.is_file():
        raise Fault(
            f"dataset.path={visible(str(path))} is no regular file (a pipe or a device), so it "
            "cannot be read."
        )
    if form_of(path.name) is None:
        raise _unreadable(path)
    return [path]


def _unreadable(path: Path) -> Fault:
    """A file whose suffix is none of ours: what it is, if that is known, and what is allowed."""
    shown, kinds = visible(str(path)), f"{', '.join(FORMS)} (text files also with .gz)"
    why = UNREADABLE.get(path.suffix.casefold())
    if why is not None:
        return Fault(f"dataset.path={shown} {why.replace('FILE', path.name)}. Allowed: {kinds}.")
    what = f"has the suffix {path.suffix!r}" if path.suffix else "has no suffix"
    return Fault(f"dataset.path={shown} {what}, so nothing says how to read it. Allowed: {kinds}.")


def _no_such_file(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        existing = next(each for each in folder.absolute().parents if each.is_dir())
        return (
            f"There is no file {visible(str(path))} (dataset.path): its folder "
            f"{visible(str(folder))} does not exist either. The nearest folder that does is "
            f"{existing}."
        )
    hint = nearest(path.name, (each.name for each in folder.iterdir()))
    guess = f" Did you mean {visible(str(folder / hint))!r}?" if hint else ""
    return (
        f"There is no file {visible(str(path))} (dataset.path), looked for in "
        f"{folder.absolute()}.{guess}"
    )


def _files_of_split(folder: Path, dataset: DatasetPlan) -> list[Path]:
    """The files of a split, in order of their names; the first layout that is there counts."""
    base = folder / dataset.name if dataset.name else folder
    if not base.is_dir():
        inner = [each.name for each in folder.iterdir() if each.is_dir()]
        raise Fault(
            f"{unknown('folder', dataset.name or '', inner, f'{folder} (dataset.name)')} Where the "
            f"files lie in {folder} itself, set tasks.NAME.dataset.name=null."
        )
    if (base / "state.json").is_file():  # one split, as save_to_disk wrote it
        return _data_files(base)
    for place in (base, base / "data"):
        if place.is_dir() and (found := _split_in(place, dataset.split)):
            return found
    inside = base / dataset.split
    found = _data_files(inside) if inside.is_dir() else []
    if len({form_of(each.name) for each in found}) > 1:
        raise _is_there_twice(dataset.split, inside, found)
    if found:
        return found
    names = [each.name for each in _data_files(base)]
    wanted = f"{base} (dataset.split); a split is a file SPLIT.jsonl, .csv, .parquet, ..."
    raise unknown("split", dataset.split, names, wanted)


def _data_files(folder: Path) -> list[Path]:
    return sorted(
        each
        for each in folder.iterdir()
        if each.is_file() and form_of(each.name) is not None and each.name not in _SAVED
    )


def _split_in(folder: Path, split: str) -> list[Path]:
    """SPLIT.SUFFIX, or all of SPLIT-00000-of-00002.SUFFIX, ...; Fault: both, two forms, or a
    part is missing.
    """
    stems = {each: _stem(each.name) for each in _data_files(folder)}
    whole = [each for each, stem in stems.items() if stem == split]
    parts = {
        each: m
        for each, stem in stems.items()
        if (m := _PART.fullmatch(stem)) and m["split"] == split
    }
    if (
        len(whole) + bool(parts) > 1
        or len({(m["of"], form_of(each.name)) for each, m in parts.items()}) > 1
    ):
        raise _is_there_twice(split, folder, [*whole, *parts])
    for match in parts.values():
        if len(parts) != int(match["of"]):
            raise Fault(
                f"Of the split {split!r} in {folder} there are {len(parts)} of {int(match['of'])} "
                "parts."
            )
    return [*whole, *parts]


def _stem(name: str) -> str:
    """The name without its suffixes."""
    packed = next((z for z in COMPRESSED if name.casefold().endswith(z)), "")
    return name[: len(name) - len(packed)].rpartition(".")[0]


def _is_there_twice(split: str, folder: Path, found: list[Path]) -> Fault:
    names = ", ".join(each.name for each in found)
    return Fault(
        f"The split {split!r} is there more than once in {folder}: {names}. Set dataset.path to "
        "one file."
    )
