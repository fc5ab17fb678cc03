"""Payments: webhooks of many tenants in, one charge for each completed payment out."""
