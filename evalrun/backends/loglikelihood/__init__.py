"""Log-likelihood requests made ready for any engine: spans of tokens, and what they share."""
