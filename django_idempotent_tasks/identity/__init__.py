"""Computes which piece of work a call is: its key, scope, fingerprint and their texts for people.

Whatever is computed from a call's arguments alone comes in here. This room knows no database and no broker,
and no settings but those that it is given.
"""
