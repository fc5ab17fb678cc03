"""What the demo has done, seen from outside, and whether it was right."""
