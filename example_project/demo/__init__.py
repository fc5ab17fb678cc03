"""The demonstration: real servers, 300 webhooks, killed workers, and a verdict on what was lost."""
