"""``idem doctor``: prints what the doctor finds, as text, JSON or SARIF."""
