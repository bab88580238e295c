"""The lab as one file: the static page of docs/lab/ with its scripts and its style in it."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs/lab"


def standalone_lab() -> str:
    """The page as HTML that needs no file beside it."""
    text = _text("index.html")
    text = re.sub(r'<link rel="stylesheet" href="([\w.]+)">', _style, text)
    return re.sub(r'<script src="([\w.]+)"></script>', _script, text)


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _style(match: re.Match) -> str:
    return f"<style>{_text(match[1])}</style>"


def _script(match: re.Match) -> str:
    return f"<script>{_text(match[1])}</script>"
