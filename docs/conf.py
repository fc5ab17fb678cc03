"""How Sphinx makes HTML of these pages and the README: make docs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from pygments.lexers.shell import BashLexer
from sphinx.application import Sphinx

project = "django-idempotent-tasks"
release = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["version"]
copyright = "the authors of django-idempotent-tasks"  # noqa: A001  Sphinx's name
extensions = ["myst_parser"]
include_patterns = [
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("docs/*.md", "docs/*/*.md"),
]
root_doc = "docs/index"
INCIDENTS = "docs/incidents/index"
# Links to headings, as they are on GitHub; one that leads nowhere is a warning, and ends the build.
myst_heading_anchors = 3
# Light and dark, wide and narrow, with a search: all that furo needs is in the build, no other host is asked.
html_theme = "furo"
html_title = f"{project} {release}"
# To publish several versions, put build/docs of each into a folder of its name, 0.1.0/ beside 0.2.0/. Write
# the names into versions.js beside these folders, newest first: docsVersions = ["0.2.0", "0.1.0"]. The pages
# of each version then lead to the others; without the file they name only their own.
templates_path = ["theme"]
html_sidebars = {
    "**": [
        "sidebar/scroll-start.html",
        "sidebar/brand.html",
        "sidebar/search.html",
        "versions.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_static_path = ["style"]
html_css_files = ["docs.css"]
html_show_sourcelink = False
html_copy_source = False


def add_navigation(_app: Sphinx, name: str, source: list[str]) -> None:
    """The links of the first page, by heading, and of the incidents are the navigation, said once more."""
    if name == INCIDENTS:
        pages = "\n".join(f"/docs/incidents/{link}" for link in re.findall(r"\]\(([\w-]+\.md)\)", source[0]))
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"
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
