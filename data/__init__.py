"""The data sets that a recipe can name. Each is a function `(split, …) -> list of rows`; a user's own data set is named
by its file or by a dotted path."""

from data import made, sources

_MADE = (made.arithmetic, made.countdown, made.puzzles)
_FROM_THE_HUB = (
    *(sources.aime_2024, sources.aime_2025, sources.amc_2023, sources.asdiv, sources.gsm8k, sources.math),
    *(sources.math_500, sources.minerva, sources.olympiadbench, sources.svamp),
)
SETS = {each.__name__.replace("_", "-"): each for each in (*_MADE, *_FROM_THE_HUB)}
