"""The WSGI application, with the admin's static files, so that it runs without a web server in front."""

from __future__ import annotations

import os

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")

application = StaticFilesHandler(get_wsgi_application())
