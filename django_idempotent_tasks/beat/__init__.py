"""Beat as a claim: each occurrence of a periodic task is a key, so any number of beats may run."""
