"""The data sets that a recipe can name. Each is a function `(split, …) -> list of rows`; a user's
own data set is named by its file or by a dotted path."""

from data import made, sources

_MADE = (made.arithmetic, made.countdown, made.products)
SETS = {
    each.__name__: each for each in (*_MADE, sources.gsm8k, sources.math, sources.svamp)
} | sources.BENCHMARKS
