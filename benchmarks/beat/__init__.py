"""What beat costs: an idle tick with many entries, and many that are due."""
