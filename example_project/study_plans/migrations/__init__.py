"""Migrations of the study plans app."""
