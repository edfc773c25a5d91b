"""Where rows come from: local files of every form, and the hub."""
