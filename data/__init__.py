"""The data sets that a recipe can name. Each is a function `(split, …) -> list of rows`; a user's own data set is named
by its file or by a dotted path."""

from data import made, sources

_OF_FUNCTIONS = (made.arithmetic, made.countdown, made.puzzles, sources.gsm8k, sources.math, sources.svamp)
SETS = {each.__name__: each for each in _OF_FUNCTIONS} | sources.BENCHMARKS
