"""What work in parts costs: chunks of records, their ends, many of them at once, steps."""
