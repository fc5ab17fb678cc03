"""What sending costs with a reservation, how soon its message arrives, and what pruning does to claims."""
