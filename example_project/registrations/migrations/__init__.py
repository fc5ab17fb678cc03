"""Migrations of the registrations app."""
