"""A payment gateway of another company: its own process and store, no Django, idempotent by key."""
