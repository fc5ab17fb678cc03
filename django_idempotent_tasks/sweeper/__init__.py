"""The sweeper: one leading process frees expired leases, sends due messages, sums duplicates and prunes.

Work on rows that no call and no person asks for belongs in here, a bounded bite at a time. ``thread.py``
decides when; the other modules do the work.
"""
