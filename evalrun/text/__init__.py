"""Text to text: normalisers, extractors, tokenisers. Pure functions, no knowledge of metrics."""

from evalrun.text.normalizers import NORMALIZERS, normalize

__all__ = ["NORMALIZERS", "normalize"]
