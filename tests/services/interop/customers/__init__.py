"""The tenants of the tests with django-tenants."""
