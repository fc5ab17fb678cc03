"""What the sweeper sends and deletes beside live claims."""
