"""Draws docs/img/grpo.svg, eight seconds of a run: it learns, and a question's incorrect completion
becomes correct. `tests.bench.pictures` calls it; a browser moves it by the style that it holds.
"""

from html import escape
from itertools import pairwise
from textwrap import wrap
from typing import NamedTuple

WIDTH, HEIGHT = 860, 400
SECONDS = 8
PLOT = (66, 104, 350, 244)  # left, top, right, bottom of the curve
LETTER = 8.43  # pixels of a monospaced letter of 14
QUESTION = 58  # letters of a line of the question
STYLE = """
:root { color-scheme: light dark; --ground: #fff; --raised: #f6f7f9; --ink: #16181d;
  --quiet: #5b6270; --line: #d9dde4; --blue: #0b63b5; --up: #00734f; --down: #b5400a }
@media (prefers-color-scheme: dark) { :root { --ground: #14161a; --raised: #1d2026; --ink: #e8eaee;
  --quiet: #a3abb9; --line: #363b45; --blue: #6db2f2; --up: #46c79a; --down: #f2915c } }
text { font: 15px system-ui, sans-serif; fill: var(--ink) }
.code { font: 14px ui-monospace, monospace }
.quiet { fill: var(--quiet); font-size: 13px }
.big { font-size: 22px; font-weight: 600 }
.up { fill: var(--up); font-weight: 600 }
.down { fill: var(--down); font-weight: 600 }
.frame { fill: var(--ground); stroke: var(--line) }
.card { fill: var(--raised); stroke: var(--line) }
.rule { stroke: var(--line) }
.curve { fill: none; stroke: var(--blue); stroke-width: 2.5 }
.bar { fill: var(--blue) }
.track { fill: var(--line) }
"""
# The last part of the eight seconds shows all, and so does a reader's wish for less movement.
RULES = """
@keyframes type {{ 0%, 3% {{ width: 0 }} 12%, 100% {{ width: {typed}px }} }}
@keyframes draw {{ 0%, 14% {{ stroke-dashoffset: {length} }} 52%, 100% {{ stroke-dashoffset: 0 }} }}
@keyframes before {{ 0%, 16% {{ opacity: 0 }} 20%, 100% {{ opacity: 1 }} }}
@keyframes after {{ 0%, 54% {{ opacity: 0 }} 58%, 100% {{ opacity: 1 }} }}
@keyframes end {{ 0%, 66% {{ opacity: 0 }} 70%, 100% {{ opacity: 1 }} }}
@keyframes grow {{ 0%, 66% {{ transform: scaleX(0) }} 76%, 100% {{ transform: scaleX(1) }} }}
@media (prefers-reduced-motion: no-preference) {{
  .typed {{ animation: type {seconds}s steps(12) infinite }}
  .curve {{ stroke-dasharray: {length}; animation: draw {seconds}s linear infinite }}
  .before {{ animation: before {seconds}s infinite }}
  .after {{ animation: after {seconds}s infinite }}
  .end {{ animation: end {seconds}s infinite }}
  .grow {{ animation: grow {seconds}s infinite; transform-origin: left; transform-box: fill-box }}
}}
"""


class Scene(NamedTuple):
    """What the picture shows.

    Attributes:
        command: what starts the run.
        curve: what the curve shows.
        points: (step, share correct) of the curve.
        question: of the completion that changed.
        completions: (label, text, answer) before and after.
        headline, luck: what the run gained, in words, and how sure that is.
        accuracies: (label, accuracy) before and after.
    """

    command: str
    curve: str
    points: list[tuple[int, float]]
    question: str
    completions: list[tuple[str, str, str]]
    headline: str
    luck: str
    accuracies: list[tuple[str, float]]


def drawn(scene: Scene) -> str:
    """The picture as SVG."""
    path, length = _path(scene.points)
    rules = RULES.format(seconds=SECONDS, length=length, typed=LETTER * (len(scene.command) + 2))
    words = f"{scene.headline}. {scene.question}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(words)}</title><style>{STYLE}{rules}</style>",
        f'<rect class="frame" x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10"/>',
        *_run(scene, path),
        *_completions(scene),
        *_result(scene),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _path(points: list[tuple[int, float]]) -> tuple[str, int]:
    """(the path of the curve, a number no less than its length)."""
    left, top, right, bottom = PLOT
    last = points[-1][0]
    places = []
    for step, share in points:
        x = left + (right - left) * step / last
        y = bottom - (bottom - top) * share
        places.append((round(x, 1), round(y, 1)))
    length = 0.0
    for (x, y), (next_x, next_y) in pairwise(places):
        length += abs(next_x - x) + abs(next_y - y)
    return "M" + " L".join(f"{x} {y}" for x, y in places), int(length) + 1


def _run(scene: Scene, path: str) -> list[str]:
    """The command, and the curve of the run."""
    left, top, right, bottom = PLOT
    command = escape(scene.command)
    lines = [
        '<clipPath id="t"><rect class="typed" x="24" y="18" width="350" height="26"/></clipPath>',
        f'<text class="code" x="24" y="36" clip-path="url(#t)">$ {command}</text>',
        f'<text x="24" y="84">{escape(scene.curve)}</text>',
    ]
    for share in (0, 0.5, 1):
        y = bottom - (bottom - top) * share
        lines.append(f'<path class="rule" d="M{left} {y} H{right}"/>')
        lines.append(
            f'<text class="quiet" x="{left - 6}" y="{y + 4}" text-anchor="end">{share:.0%}</text>'
        )
    lines.append(f'<path class="curve" d="{path}"/>')
    last = scene.points[-1][0]
    lines.append(
        f'<text class="quiet" x="{right}" y="{bottom + 18}" text-anchor="end">step {last}</text>'
    )
    return lines


def _completions(scene: Scene) -> list[str]:
    """The question, and what was answered before and after."""
    lines = []
    for number, line in enumerate(wrap(scene.question, QUESTION)):
        lines.append(f'<text x="384" y="{24 + 22 * number}">{escape(line)}</text>')
    names = zip(("before", "after"), ("down", "up"), ("✗", "✓"), scene.completions, strict=True)
    for place, (name, kind, sign, (label, text, answer)) in enumerate(names):
        y = 82 + 96 * place
        lines.append(f'<g class="{name}">')
        lines.append(f'<rect class="card" x="384" y="{y}" width="452" height="88" rx="8"/>')
        lines.append(f'<text x="400" y="{y + 26}">{escape(label)}</text>')
        lines.append(
            f'<text class="{kind}" x="820" y="{y + 26}" text-anchor="end">'
            f"{escape(answer)} {sign}</text>"
        )
        for number, line in enumerate(text.splitlines()[:2]):
            below = y + 52 + 22 * number
            lines.append(f'<text class="code" x="400" y="{below}">{escape(line[:49])}</text>')
        lines.append("</g>")
    return lines


def _result(scene: Scene) -> list[str]:
    """The headline, and a bar for each accuracy."""
    lines = [
        f'<g class="end"><text class="big" x="24" y="308">{escape(scene.headline)}</text>',
        f'<text class="quiet" x="836" y="308" text-anchor="end">{escape(scene.luck)}</text></g>',
    ]
    for place, (label, accuracy) in enumerate(scene.accuracies):
        y = 336 + 26 * place
        width = 620 * accuracy
        lines.append(f'<text x="24" y="{y + 12}">{escape(label)}</text>')
        lines.append(f'<rect class="track" x="140" y="{y}" width="620" height="14" rx="4"/>')
        moves = " grow" if place else ""
        lines.append(
            f'<rect class="bar{moves}" x="140" y="{y}" width="{width:.1f}" height="14" rx="4"/>'
        )
        lines.append(
            f'<text class="end" x="836" y="{y + 12}" text-anchor="end">{accuracy:.1%}</text>'
        )
    return lines
