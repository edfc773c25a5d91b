"""Metrics of summaries and translations: ROUGE, BLEU, chrF, TER, coverage."""
