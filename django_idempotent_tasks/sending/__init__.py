"""Sends a call: checks its options, reserves its key, and publishes its message after the commit.

What happens between ``apply_async`` or ``submit()`` and the broker comes in here. ``running`` handles the
message where it arrives. Empty, since importing a room must load no models.
"""
