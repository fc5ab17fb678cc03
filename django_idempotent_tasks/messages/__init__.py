"""What goes over the broker: a call as a message, its headers, its address, and how it is published.

Whatever makes, reads or publishes a message comes in here. This room knows nothing of the ledger's rows.
"""
