"""Study plans: an expensive piece of work that a page starts once, however often its button is clicked."""
