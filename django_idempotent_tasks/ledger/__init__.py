"""The table of keys: every transition of a row, and the rules by which a call gets a key.

Whatever reads or writes a key's row comes in here; SQL stands in ``stores`` alone. Knows nothing of
Celery's requests, brokers or pages. Empty, as ``sending`` is.
"""
