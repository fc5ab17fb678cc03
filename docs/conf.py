"""How Sphinx makes HTML of these pages and the README: make docs."""

from __future__ import annotations

import re

from pygments.lexers.shell import BashLexer
from sphinx.application import Sphinx

project = "django-idempotent-tasks"
copyright = "the authors of django-idempotent-tasks"  # noqa: A001  Sphinx's name
extensions = ["myst_parser"]
include_patterns = ["README.md", "CHANGELOG.md", "docs/*.md", "docs/*/*.md"]
root_doc = "docs/index"
# Links to headings, as they are on GitHub; one that leads nowhere is a warning, and ends the build.
myst_heading_anchors = 3
# Sphinx's own theme: everything it needs is in the build, nothing is fetched from other hosts.
html_theme = "alabaster"
html_theme_options = {
    "description": "Celery tasks whose effects happen once",
    "fixed_sidebar": True,
    "page_width": "1140px",
    "body_max_width": "none",
}
html_static_path = ["style"]
html_css_files = ["docs.css"]
html_show_sourcelink = False
html_copy_source = False


def add_navigation(_app: Sphinx, name: str, source: list[str]) -> None:
    """The headings and links of the first page are the navigation: Sphinx wants it said once more."""
    if name != root_doc:
        return
    for part in re.findall(r"^## .*?(?=^## |\Z)", source[0], re.MULTILINE | re.DOTALL):
        caption = part.partition("\n")[0].removeprefix("## ")
        pages = "\n".join(f"/docs/{link}" for link in re.findall(r"\]\(([^)]+\.md)\)", part))
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_lexer("console", BashLexer)  # commands without a prompt, so that they can be copied
    app.connect("source-read", add_navigation)
