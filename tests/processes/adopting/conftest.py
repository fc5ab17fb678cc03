"""The surroundings of the other worker processes."""

from tests.support.workers.sites import _clean, key, own_site, site  # noqa: F401  the same surroundings
