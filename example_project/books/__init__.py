"""What runs by the clock: the books are compared with the gateway's, customers reminded, old rows removed."""
