"""Which piece of work a call is: its key, its scope, its fingerprint and their texts for people.

Whatever is computed from a call's arguments alone comes in here: no database, no broker, no settings
but what it is given.
"""
