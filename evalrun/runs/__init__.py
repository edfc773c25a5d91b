"""One evaluation from what was typed to its numbers: compose, find, resume, execute, sweep."""
