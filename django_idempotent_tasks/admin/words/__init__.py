"""The words of the admin's pages: states, progress, timelines, periodic tasks."""
