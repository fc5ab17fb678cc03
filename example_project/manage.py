"""Django's command line for the example project: ``python example_project/manage.py <command>``."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command that the arguments name."""
    # Python puts this file's directory first on the path, where celery.py would hide the Celery package.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
