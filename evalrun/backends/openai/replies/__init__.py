"""What servers answer, read byte by byte: events, streamed completions, JSON bodies, errors."""
