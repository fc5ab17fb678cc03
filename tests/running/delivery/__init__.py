"""What an atomic delivery leaves in the database and tells Celery, on PostgreSQL and on SQLite."""
