"""What becomes of the records of a chunk in the ledger, on PostgreSQL and on SQLite."""
