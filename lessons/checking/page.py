"""The page of a lesson as HTML, for any browser."""

from __future__ import annotations

from pathlib import Path

TEMPLATE = Path(__file__).with_name("page.html")


def as_html(markdown: str) -> str:
    """A page with its style inside it, from Markdown that begins with the title.

    HTML in the text stays as it is: answers are folded away in ``<details>``.
    """
    from jinja2 import Template
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    title = markdown.splitlines()[0].removeprefix("# ")
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    body = body.replace("<table>", '<div class="scroll"><table>')
    body = body.replace("</table>", "</table></div>")
    page = Template(TEMPLATE.read_text(encoding="utf-8"), autoescape=True)
    return page.render(title=title, body=Markup(body))
