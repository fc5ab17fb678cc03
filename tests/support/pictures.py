"""The pictures of the documentation: what each shows, and whether it was made from what is there now."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import django_idempotent_tasks

#: Each picture, made by a test in a browser, and the template of the page that it shows.
PICTURES = {
    "dashboard": "dashboard.html",
    "dead-letters": "dead_letters.html",
    "pause": "confirm.html",
    "redrive": "confirm.html",
    "stuck-key": "key.html",
    "unknown-task": "key.html",
}
#: Beside the pictures: of each the digest of what it was made from.
RECORD = "made-from.json"
_PACKAGE = Path(django_idempotent_tasks.__file__).parent
_TEMPLATES, _STATIC = _PACKAGE / "templates", _PACKAGE / "static" / "django_idempotent_tasks"
_NAMED = re.compile(r'{% (?:extends|include) "(admin/django_idempotent_tasks/[\w.]+)"')


def made_from(picture: str) -> str:
    """The digest of the style sheets, and of the template with all of ours that it extends and includes."""
    found = sha256()
    top = f"admin/django_idempotent_tasks/{PICTURES[picture]}"
    for path in sorted(set(_with_its_parts(_TEMPLATES / top))) + sorted(_STATIC.glob("*.css")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def recorded(folder: Path) -> dict[str, str]:
    """What is noted of the pictures of a folder."""
    path = folder / RECORD
    return dict(json.loads(path.read_text())) if path.exists() else {}


def note(folder: Path, picture: str) -> None:
    """Note that a picture was made now."""
    found = recorded(folder) | {picture: made_from(picture)}
    (folder / RECORD).write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")


def _with_its_parts(template: Path) -> Iterator[Path]:
    yield template
    for name in _NAMED.findall(template.read_text()):
        yield from _with_its_parts(_TEMPLATES / name)
