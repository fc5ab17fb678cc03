"""Answers what people ask of the ledger and carries out what they decide, once for every door.

The admin, the command ``idem`` and the HTTP views are doors: each asks here and shows the answer in its own
way. So no module in here knows HTML, a request, argparse or an exit code: an answer is a value, a plain
sentence or an exception of this package. No module in here imports ``admin``, ``management`` or ``http``.
This module imports nothing: a program that needs one part loads only that part.
"""
