"""Commands of the study plans app."""
