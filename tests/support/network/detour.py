"""The way to a site's database through a proxy."""

from __future__ import annotations

from urllib.parse import urlsplit

from tests.support.network.proxy import Proxy
from tests.support.workers.site import Site


def port_of(site: Site) -> int:
    """Where the site's database listens on this machine."""
    return urlsplit(site.database_url).port or 5432


def url_through(proxy: Proxy, site: Site) -> str:
    """The database's URL for workers that are to go through the proxy."""
    place = urlsplit(site.database_url)
    account = place.netloc.rpartition("@")[0]
    return place._replace(netloc=f"{account}@127.0.0.1:{proxy.port}").geturl()
