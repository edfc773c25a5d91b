"""Backend `hf`: transformers on this machine."""
