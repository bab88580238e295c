"""Lists the training problems that a recipe's benchmarks also ask, for you to read. Training always
drops them."""

from collections import defaultdict

from console.terminal import quiet_libraries, say
from data.identity import Overlap, overlaps
from schema.recipe import Recipe
from training.problem_sets import load_benchmarks, train_and_validation

SHOWN = 5


def main(recipe: Recipe, show: int = SHOWN) -> dict[str, list[Overlap]]:
    """List the training problems of a recipe that overlap with its benchmarks. Return them by
    benchmark."""
    quiet_libraries()
    rows, _ = train_and_validation(recipe)
    by_benchmark = defaultdict(list)
    for overlap in overlaps(rows, load_benchmarks(recipe)):
        by_benchmark[overlap.benchmark].append(overlap)
    for benchmark, shared in by_benchmark.items():
        count = len(shared)
        say(f"\n{benchmark}: {count:,} training problems, the first {min(show, count)}:")
        for overlap in shared[:show]:
            say(
                f"\n  train      {_one_line(rows[overlap.row]['problem'])}\n"
                f"  {benchmark:<10} {_one_line(overlap.problem)}\n"
                f"  shared     {overlap.shared}"
            )
    total = sum(map(len, by_benchmark.values()))
    say(
        f"\n{total:,} of {len(rows):,} training problems overlap with the benchmarks; training"
        " leaves them out"
    )
    return by_benchmark


def _one_line(text: str, width: int = 200) -> str:
    line = " ".join(text.split())
    if len(line) <= width:
        return line
    return line[: width - 1] + "…"
