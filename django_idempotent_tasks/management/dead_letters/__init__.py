"""``idem dead-letters`` and ``idem redrives``: what failed is listed, shown, redriven or put away."""
