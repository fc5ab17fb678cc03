"""Helps to test projects and stores; the package itself imports nothing from here."""
