"""What people may ask of the ledger and decide about it, said once for every door.

The admin, the command ``idem`` and the HTTP views are doors: they ask here and show the answer in their own
way. So nothing in here knows of HTML, of a request, of argparse or of an exit code: an answer is a value, a
plain sentence or an exception of this package. Nothing in here imports ``admin``, ``management`` or ``http``,
and this module imports nothing at all: who needs one part loads only that one.
"""
