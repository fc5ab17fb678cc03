"""How far one table of keys goes: verbs, vacuum, indexes and partitions at many rows."""
