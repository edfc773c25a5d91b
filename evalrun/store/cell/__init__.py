"""The files of one cell (model x task): predictions, documents, verdicts, statistics, results."""
