"""Whether it is any good: answers and their statistics, and what reward hacks would earn."""

import schema  # noqa: F401 - what libraries read when they are imported
