"""Commands of the registrations app."""
