"""Metrics and scorers that compare an answer with gold texts by its words or characters."""
