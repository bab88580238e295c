"""What a run logged: `metrics.jsonl`."""

import re
from pathlib import Path

from data.json_files import read_lines
from runs.folder import is_of
from schema.configs import RIGHT


def read_metrics(run: Path) -> list[dict]:
    """The lines that a run logged, each with its step and the numbers in it, and which problems were right (see
    `schema.configs.RIGHT`). What no run writes is left out, as is a line that a full disk tore."""
    lines = []
    for line in read_lines(run / "metrics.jsonl"):
        if is_of(line.get("step"), int):
            numbers = {key: value for key, value in line.items() if is_of(value, float)}
            right = line.get(RIGHT)
            answered = isinstance(right, str) and re.fullmatch("[01]+", right)
            lines.append(numbers | ({RIGHT: right} if answered else {}))
    return lines
