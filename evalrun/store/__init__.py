"""Every path and every Arrow schema of an output folder, here and nowhere else.

layout        paths, names, claiming and finding runs (no pyarrow)
predictions   replies: the writer that survives kill -9, and reading
docs          documents as scoring needs them
verdicts      one sample judged by one scorer
results       estimates as strict JSON, statistics per document, stage times

Below them: disk (atomic files), lock (one writer), columns and arrowfile (Arrow without pandas),
rows (row version 1), shards (the streams of a running writer).
"""
