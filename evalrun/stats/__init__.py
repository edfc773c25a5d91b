"""Pure numbers: errors, intervals, bootstrap, repeated sampling."""
