"""What one delivery costs in its process: statements, calls and time."""
