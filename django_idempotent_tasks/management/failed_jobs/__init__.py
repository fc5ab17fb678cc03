"""``idem failed-jobs``: failed attempts, and plain tasks that run again."""
