"""The data sets that a recipe can name. Each is a function `(split, …) -> list of rows`; a user's
own data set is named by its file or by a dotted path."""

from data import made, sources

SETS = {
    "arithmetic": made.arithmetic,
    "products": made.products,
    "gsm8k": sources.gsm8k,
    "math": sources.math,
    "svamp": sources.svamp,
} | sources.BENCHMARKS
