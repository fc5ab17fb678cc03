"""``idem keys``: one key is shown, released or cancelled."""
