"""``idem keys``: lists, shows, releases and cancels keys."""
