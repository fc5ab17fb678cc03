"""How figures are computed, compared with their goals, and shown as tables and pictures."""
