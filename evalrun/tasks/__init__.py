"""From a dataset's rows to documents, and from documents to prompts and requests."""
