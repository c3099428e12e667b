"""The pages of lessons as HTML."""

from __future__ import annotations

import re

import lessons
from workbench.lesson.page import as_html


def test_a_browser_shows_the_pages(tmp_path, browser_page) -> None:
    """Catches Markdown that is shown as it is, answers that are not folded, and text cut off.

    Three pages have all that pages have: tables, figures, code, folded answers.
    """
    for name in lessons.names()[::4]:
        markdown = (lessons.load(name).folder / "page.md").read_text()
        file = tmp_path / f"{name}.html"
        file.write_text(as_html(markdown))
        page, complaints = browser_page(file)
        outside = re.sub(r"```.*?```", "", markdown, flags=re.DOTALL)
        headings = [re.sub("`", "", title) for title in re.findall(r"(?m)^#+ (.*)", outside)]
        assert page.locator("h1, h2, h3").all_inner_texts() == headings, name
        assert page.title() == headings[0] and not complaints, name
        assert page.locator("pre").count() >= markdown.count("```") // 2, name
        answers = page.locator("details > p")
        assert answers.count() > 0, name
        assert not any(answer.is_visible() for answer in answers.all()), name
        page.locator("summary").first.click()
        assert answers.first.is_visible(), name
        shown = re.sub(r"\s+", " ", page.locator("body").inner_text())
        assert not re.search(r"\|---|\*\*|\]\(|<summary>", shown), name
        page.set_viewport_size({"width": 400, "height": 800})  # a telephone
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, name
