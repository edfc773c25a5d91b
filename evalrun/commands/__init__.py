"""One file per command of the command line: list, import, score, status, stop, pack."""
