"""Fields of the configuration that say at their definition whether they can change an answer."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from typing import Any


def asked(
    default: Any = None,
    *,
    factory: Any = dataclasses.MISSING,
    as_absent: Any = None,
    is_place: bool = False,
) -> Any:
    """A key that can change an answer: it counts in the address of a run (`ask_id`).

    Args:
        default, factory: as of a dataclass field.
        as_absent: a value that says the same as leaving the key out, and so does not count.
        is_place: a path; a local one counts by its file name, so that every machine finds the run.
    """
    metadata = {"is_asked": True, "as_absent": as_absent, "is_place": is_place}
    if factory is not dataclasses.MISSING:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def unasked(default: Any = None, *, factory: Any = dataclasses.MISSING) -> Any:
    """A key that says where or how fast, never what is answered."""
    if factory is not dataclasses.MISSING:
        return field(default_factory=factory, metadata={"is_asked": False})
    return field(default=default, metadata={"is_asked": False})


def partly_asked(keys: frozenset[str]) -> Any:
    """A mapping of which only the entries `keys` can change an answer."""
    return field(default_factory=dict, metadata={"is_asked": False, "asked_entries": keys})
