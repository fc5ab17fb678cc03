"""The second act: an organiser's 2,000 rows under kills and an outage, and a verdict on each row."""
