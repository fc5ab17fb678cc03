"""Reads errors whose classes may lie, raise or hang, and tells a stop of the worker from a task's error.

Whatever looks at an exception without deciding what it means for a key comes in here. The exceptions of
this package stand in ``exceptions``.
"""
