"""A payment platform that receives webhooks of many tenants and charges each completed payment once."""
