"""HTTP to model servers: one client with retries, limits and streams.

Knows nothing of log-probabilities.
"""
