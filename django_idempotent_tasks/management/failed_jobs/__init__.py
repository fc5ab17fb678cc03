"""``idem failed-jobs``: lists and shows failed attempts, and reruns those of plain tasks."""
