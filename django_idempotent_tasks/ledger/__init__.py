"""Every transition of a key's row in the database, and the rules by which a call gets a key.

Code that reads or writes a key's row belongs in here; SQL stands in ``stores`` alone. This room knows
nothing of Celery's requests, of brokers or of pages. Empty, since importing a room must load no models.
"""
