"""Predictions of other tools: their tables and documents, read into ours."""
