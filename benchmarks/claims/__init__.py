"""What claims cost at few keys and at many."""
