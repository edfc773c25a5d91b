"""Words of a command line or of a call from Python, read into settings that Hydra composes."""
