"""Reads errors that may lie about themselves, and tells a stop of the worker from an error of a task.

Whatever looks at an exception without deciding what it means for a key comes in here. The classes that
this package raises stand in ``exceptions``.
"""
