"""Actions on rows of the admin: each asks a question, checks permissions, carries out and logs."""
