"""Metrics over n samples of a document: pass@k and its relatives."""
