"""Backend `replay`: saved predictions served again."""
