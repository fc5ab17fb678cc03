"""An organiser's CSV of up to 100,000 attendees: each is registered, charged and given a badge once."""
