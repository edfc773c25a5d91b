"""See the files of this folder."""
