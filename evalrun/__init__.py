"""evalrun: the evaluation runner for language models."""

__version__ = "0.1.0"
