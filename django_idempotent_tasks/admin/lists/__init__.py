"""Parts of the admin's lists: their filters, their pages, their search, their window of time."""
