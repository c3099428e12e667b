"""The documentation as a site that can be searched: ``make docs`` writes docs/_build/index.html.

Pages are Markdown, as they are read in the repository. What pages of reference show is made here:
the command line from the parser, keys of records from their shapes, and docstrings.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))
os.environ["COLUMNS"] = "100"  # of help texts

from reference_pages import help_texts, record_keys  # noqa: E402

project = "Parallel mini-apps"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = project
html_copy_source = False
myst_heading_anchors = 4
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
ABOVE = {"start": "README.md", "contributing": "CONTRIBUTING.md", "changelog": "CHANGELOG.md"}


class CommandLine(SphinxDirective):
    """``{command-line} APP``: the help of every command, of the apps that of APP."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A section for each command."""
        return [_section(name, text) for name, text in help_texts(self.arguments[0])]


def _section(name: str, text: str) -> nodes.section:
    """The help of a command under its name."""
    section = nodes.section(ids=[nodes.make_id(name)], names=[name])
    section += [nodes.title(text=name), nodes.literal_block(text=text, language="text")]
    return section


class RecordKeys(SphinxDirective):
    """``{record-keys}``: the keys of a record, and the values that each may have."""

    def run(self) -> list[nodes.Node]:
        """A list of definitions."""
        found = nodes.definition_list()
        for key, allowed in record_keys().items():
            term = nodes.term("", "", nodes.literal(text=key))
            meaning = nodes.definition("", nodes.paragraph(text=allowed))
            found += nodes.definition_list_item("", term, meaning)
        return [found]


def with_pages_above(app: Sphinx, name: str, source: list[str]) -> None:
    """Take the pages above this folder into the site, with the links to and from them."""
    if name in ABOVE:
        source[0] = (ROOT / ABOVE[name]).read_text(encoding="utf-8").replace("](docs/", "](")
    here = "../" * name.count("/")
    above = "" if name in ABOVE else f"../{here}"
    for page, file in ABOVE.items():
        source[0] = source[0].replace(f"]({above}{file}", f"]({here}{page}.md")


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.add_directive("command-line", CommandLine)
    app.add_directive("record-keys", RecordKeys)
    app.connect("source-read", with_pages_above)
    return {"parallel_read_safe": True}
