"""Arithmetic over what another model says: ratings, grades, embeddings."""
