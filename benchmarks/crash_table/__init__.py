"""What becomes of work under crashes, duplicates and retries: this package beside its peers."""
