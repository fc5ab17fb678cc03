"""The ledger heals by itself: one leader frees expired leases, sends what is due, sums and prunes.

Whatever is done to rows that nobody asked about comes in here, a bounded bite at a time. ``thread.py``
says when; the other modules say what.
"""
