"""The page of an animation: wide as it is drawn, narrow with one panel below the other.

In a window that is narrower than the figure, such as that of a telephone, the page draws it as wide
as the window, with the layout of `narrow`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plotly.io.json import to_json_plotly
from plotly.offline import get_plotlyjs

from miniapps.workbench.quoting import markup
from miniapps.workbench.show.captions import wrapped

PANELS = (130, 230, 110, 110)  # heights of the panels of a run, pixels
BELOW = (62, 62, 38, 76)  # room below each, for its ticks and its title
BAR, LINE = 62, 15  # the heights of a colour bar with its texts, and of a line of text
MARGIN = {"l": 56, "r": 16, "b": 190}
LETTERS, SMALL_LETTERS = 46, 52  # of a line
FONT, TITLE_FONT = 10, 12

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 0; background: white; }}
#figure {{ max-width: 100%; }}
</style>
<script>{library}</script>
</head>
<body>
<div id="figure"></div>
<script>
const drawn = {drawn};
const narrow = {narrow};
{fitting}
</script>
</body>
</html>
"""
FITTING = """
let room = 0;
function draw() {
  if (room == document.documentElement.clientWidth) return;
  room = document.documentElement.clientWidth;
  const {data, layout, frames} = structuredClone(drawn);
  const config = {displayModeBar: layout.width <= room ? 'hover' : false};
  if (room < layout.width) {
    for (const [path, value] of Object.entries({...narrow, width: room})) {
      const keys = path.replaceAll('[', '.').replaceAll(']', '').split('.'), last = keys.pop();
      keys.reduce((part, key) => part[key] ??= {}, layout)[last] = value;
    }
  }
  Plotly.newPlot('figure', {data, layout, frames, config});
}
window.addEventListener('resize', draw);
draw();
"""


def page_of(figure: Any, columns: int, title: str, narrow_title: str) -> str:
    """The page of a figure that `workbench.show.animation` has drawn, with a column per run."""
    drawn, changed = (
        to_json_plotly(part) for part in (figure, narrow(figure, columns, narrow_title))
    )
    parts = {"library": get_plotlyjs(), "drawn": drawn, "narrow": changed, "fitting": FITTING}
    return PAGE.format(title=markup(title), **parts)


def narrow(figure: Any, columns: int, title: str) -> dict[str, Any]:
    """The changes of a figure's layout with which all panels are below each other."""
    commands = [
        wrapped(note.text.replace("<br>", " "), LETTERS, "<br>")
        for note in figure.layout.annotations[:columns]
    ]
    heads = [LINE * (command.count("<br>") + 1) + 10 for command in commands]
    drawn = 2 * BAR + sum(heads) + columns * sum(PANELS + BELOW)  # the area inside the margins
    changed: dict[str, Any] = {
        "font.size": FONT,
        "title.text": title,
        "title.font.size": TITLE_FONT,
    }
    changed |= {f"margin.{side}": room for side, room in MARGIN.items()}
    changed["margin.t"] = LINE * (title.count("<br>") + 3)
    changed["height"] = drawn + changed["margin.t"] + MARGIN["b"]
    for number, name in enumerate(("coloraxis", "coloraxis2")):
        bar = {"orientation": "h", "x": 0.5, "xanchor": "center", "len": 1, "thickness": 12}
        bar |= {"y": 1 - number * BAR / drawn, "yanchor": "top", "title.side": "top"}
        changed |= {f"{name}.colorbar.{key}": value for key, value in bar.items()}
    top = 2 * BAR
    for column, (command, head) in enumerate(zip(commands, heads, strict=True)):
        top += head
        where = {"text": command, "x": 0.5, "y": 1 - (top - 4) / drawn}
        changed |= {f"annotations[{column}].{key}": value for key, value in where.items()}
        changed |= dict(_placed(figure, column + 1, top, drawn))
        top += sum(PANELS + BELOW)
    changed |= {"sliders[0].pad.l": 0, "sliders[0].pad.t": 40, "updatemenus[0].pad.t": 125}
    return changed


def _placed(figure: Any, column: int, top: float, drawn: float) -> Iterator[tuple[str, Any]]:
    """The places of the axes of a run whose panels begin at ``top``, in pixels of ``drawn``."""
    for row, (height, below) in enumerate(zip(PANELS, BELOW, strict=True), 1):
        place = figure.get_subplot(row, column)
        yield f"{place.xaxis.plotly_name}.domain", [0, 1]
        yield f"{place.yaxis.plotly_name}.domain", [1 - (top + height) / drawn, 1 - top / drawn]
        top += height + below
    said = place.xaxis.title.text
    yield f"{place.xaxis.plotly_name}.title.text", wrapped(said, LETTERS, "<br>")
