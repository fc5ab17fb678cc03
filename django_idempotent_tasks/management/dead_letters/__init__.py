"""``idem dead-letters`` and ``idem redrives``: list, show, redrive, discard and resolve dead letters."""
