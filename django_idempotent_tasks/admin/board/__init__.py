"""The parts of the dashboard, each a section of its page."""
