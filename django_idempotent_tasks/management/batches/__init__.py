"""The verbs of ``idem batches``: what each batch has done, what failed of it, and decisions about it."""
