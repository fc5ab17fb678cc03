"""What goes over the broker: a call as a message, its headers, where it goes, and how it is published.

Whatever makes, reads or publishes a message comes in here. Knows nothing of the ledger's rows.
"""
