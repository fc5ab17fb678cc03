"""The admin on a ledger of millions: what its pages cost the database."""
