"""Parts of the admin's lists: filters, paging, search, and the bounds of what a list reads."""
