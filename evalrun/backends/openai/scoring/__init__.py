"""Log-likelihoods from servers: which calls to send, and how to read log-probabilities out of
their answers.
"""
