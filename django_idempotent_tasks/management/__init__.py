"""The command ``manage.py idem``: one module for each thing that an operator asks or does."""
