"""How a data file is read, by its suffix: the one table of them."""

from __future__ import annotations

from pathlib import PurePath

FORMS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
}
"""Suffix in small letters -> form."""

TEXT_FORMS = ("jsonl", "json", "csv", "tsv")
"""Forms that may be compressed as a whole."""

COMPRESSED = (".gz",)

UNREADABLE = {
    ".zst": "is compressed with Zstandard, which evalrun does not read. Unpack it: zstd -d FILE",
    ".bz2": "is compressed with bzip2, which evalrun does not read. Unpack it: bunzip2 FILE",
    ".xz": "is compressed with xz, which evalrun does not read. Unpack it: unxz FILE",
    ".zip": "is an archive, which evalrun does not read. Unpack it: unzip FILE",
    ".xlsx": "is an Excel workbook, which evalrun does not read. Save the sheet as CSV (UTF-8)",
    ".xls": "is an Excel workbook, which evalrun does not read. Save the sheet as CSV (UTF-8)",
}
"""Suffixes of files that people have, and what to do with them."""


def form_of(name: str) -> str | None:
    """The form of a file by its name, case ignored; None where the suffix says nothing.

    >>> form_of("test.JSONL.gz"), form_of("a.parquet.gz"), form_of("org/name")
    ('jsonl', None, None)
    """
    name = name.casefold()
    packed = next((suffix for suffix in COMPRESSED if name.endswith(suffix)), "")
    form = FORMS.get(PurePath(name.removesuffix(packed)).suffix)
    return form if form in TEXT_FORMS or not packed else None
