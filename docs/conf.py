"""The documentation as a site that can be searched: ``make docs`` writes docs/_build/index.html.

Pages are Markdown, as they are read in the repository. What pages of reference show is made here:
the command line from the parser, keys of records from their shapes, and docstrings.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ["COLUMNS"] = "100"  # of help texts

from miniapps.workbench.cli import build_parser  # noqa: E402
from miniapps.workbench.run.revalidation import MEASURED, RECORD  # noqa: E402
from miniapps.workbench.run.shapes import Kind  # noqa: E402

project = "Parallel mini-apps"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "teaching/README-for-students.md"]
html_theme = "furo"
html_title = project
html_copy_source = False
myst_heading_anchors = 4
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
ABOVE = {"start": "README.md", "contributing": "CONTRIBUTING.md", "changelog": "CHANGELOG.md"}


class CommandLine(SphinxDirective):
    """``{command-line} WORDS``: the help of a command and of those below it."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """A section for each command."""
        words = (self.arguments or [""])[0].split()
        return [self._section(words, parser) for words, parser in commands(words)]

    def _section(self, words: list[str], parser: argparse.ArgumentParser) -> nodes.section:
        """The help of a command under its name."""
        name = " ".join(["miniapps", *words])
        section = nodes.section(ids=[nodes.make_id(name)], names=[name])
        text = parser.format_help().rstrip()
        section += [nodes.title(text=name), nodes.literal_block(text=text, language="text")]
        return section


def commands(words: list[str]) -> list[tuple[list[str], argparse.ArgumentParser]]:
    """The parsers of all commands, those of apps once, for the app that ``words`` name."""
    found = []

    def walk(path: list[str], parser: argparse.ArgumentParser) -> None:
        found.append((path, parser))
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, child in action.choices.items():
                    if action.dest != "app" or name in words:
                        walk([*path, name], child)

    walk([], build_parser(words))
    return found


class RecordKeys(SphinxDirective):
    """``{record-keys}``: the keys of a record, and the values that each may have."""

    def run(self) -> list[nodes.Node]:
        """A list of definitions."""
        found = nodes.definition_list()
        for key, allowed in [*keys(RECORD), *keys(MEASURED)]:
            term = nodes.term("", "", nodes.literal(text=key))
            meaning = nodes.definition("", nodes.paragraph(text=allowed))
            found += nodes.definition_list_item("", term, meaning)
        return [found]


def keys(shape: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The keys in a shape, with what their values must be; keys within others after a dot."""
    if isinstance(shape, Kind):
        yield path, shape.allowed
    elif isinstance(shape, list):
        yield from keys(shape[0], f"{path}[]")
    else:
        for key, value in shape.items():
            name = f"{path}.{key}".lstrip(".").removesuffix("?")
            for at, allowed in keys(value, name):
                yield at, f"{allowed}; may be missing" if key.endswith("?") else allowed


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
