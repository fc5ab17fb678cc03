"""What the admin's pages say of a key: states, progress, history, entries of beat, in words."""
