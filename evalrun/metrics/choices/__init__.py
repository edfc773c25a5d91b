"""Metrics over the log-probabilities of choices."""
