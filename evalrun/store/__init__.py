"""Every path and every Arrow schema of an output folder, here and nowhere else.

layout   a run's folder: claiming and finding runs (no pyarrow)
cell/    the files of one model on one task: CellFiles (paths), predictions, documents, verdicts,
         results, statistics
rows/    rows of any kind that are appended one at a time and survive kill -9
arrow/   Arrow files of any schema, without pandas
state    what a run is doing, readable at any time

Below them: disk (atomic files), lock (one writer), names (names as path components).
"""
