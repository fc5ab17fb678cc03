"""The command ``manage.py idem``: a folder for each noun, a module for each verb."""
