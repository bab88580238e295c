"""The data sets that a recipe can name. Each is a function `(split, …) -> list of rows`, which a recipe names as here,
with hyphens (`math-500` is `math_500`); a user's own data set is named by its file or by a dotted path."""

from data.arithmetic import arithmetic
from data.countdown import countdown
from data.puzzles import puzzles
from data.sources import (
    aime_2024,
    aime_2025,
    amc_2023,
    asdiv,
    gsm8k,
    math,
    math_500,
    minerva,
    olympiadbench,
    svamp,
)

__all__ = [
    "aime_2024",
    "aime_2025",
    "amc_2023",
    "arithmetic",
    "asdiv",
    "countdown",
    "gsm8k",
    "math",
    "math_500",
    "minerva",
    "olympiadbench",
    "puzzles",
    "svamp",
]
