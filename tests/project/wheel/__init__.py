"""``make dist``: what would be uploaded, and whether a project can live on it."""
