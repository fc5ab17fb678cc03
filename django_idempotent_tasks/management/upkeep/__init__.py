"""``idem status``, ``sweep``, ``prune``, ``beat`` and ``health``: the upkeep of the ledger."""
