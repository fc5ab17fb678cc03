"""``idem status``, ``sweep``, ``prune``, ``erase``, ``beat``: what an operator does for the ledger itself."""
