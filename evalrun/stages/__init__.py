"""The stages of a run: infer asks, score judges, summarize shows. Independent of each other."""
