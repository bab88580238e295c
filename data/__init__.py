"""Where problems come from. A data set is a function `(split, …) -> list of rows`; a recipe names it by its name here
(`math-500` is `math_500`) or, for one of the user's own, by a dotted path."""

from data.arithmetic import arithmetic
from data.sources import gsm8k, math, math_500

__all__ = ["arithmetic", "gsm8k", "math", "math_500"]
