"""The steps of the infer stage: documents and prompts of a cell, what stored rows were
made of."""
