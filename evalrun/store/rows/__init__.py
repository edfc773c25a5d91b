"""Rows that are appended one at a time and survive kill -9: any row schema, one writer, streams,
and one sorted file at the end.

row_schema    what a row is: its columns, its key, which statuses are failures
shard_writer  the stream of one process start
shard_reader  that stream read back, wherever it was cut
stored_rows   file and streams read together; which row stands for a key
row_writer    lock, recovery, appending, and the merge into the sorted file
"""
