"""Sends periodic tasks: each occurrence is a key, so that any number of beats may run."""
