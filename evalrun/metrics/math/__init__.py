"""Mathematical equality."""
