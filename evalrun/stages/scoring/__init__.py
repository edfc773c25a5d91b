"""The steps of the score stage: saved answers -> verdicts -> statistics per document ->
estimates with errors.
"""
