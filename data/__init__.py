"""Where problems come from. A data set is a function `(split, …) -> list of rows`; a recipe names it by its name here
(`math-500` is `math_500`) or, for one of the user's own, by a dotted path."""

from data.arithmetic import arithmetic
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
    "gsm8k",
    "math",
    "math_500",
    "minerva",
    "olympiadbench",
    "svamp",
]
