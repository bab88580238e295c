"""What would a cheat be paid? A recipe's own rewards on a sample of its own data, before any GPU hour.

Every gold is echoed in the recipe's form and must be judged right. Then every response of `evaluation.cheats` is paid.
A cheat that earns more than an honest mistake on the same problem, or a trick around the right answer that earns more
than the right answer given plainly, fails the audit: exit code 1.
"""

import argparse
import random
import sys

from evaluation.audit import Pay, audited, bound_rewards, gold_fault, problems
from schema.faults import RecipeError
from schema.meaning import missing_columns
from schema.problem_sets import split
from schema.recipe import Recipe
from schema.terminal import make_command, say
from stages.cli import run


def main(recipe: Recipe, rows: int = 100):
    """Pay honest answers and cheats with a recipe's rewards."""
    train, _ = split(recipe)
    sample = random.Random(0).sample(train, min(rows, len(train)))
    if faults := missing_columns(recipe.rewards, [*sample[0], "prompt", "think_opened"]):
        raise RecipeError(faults)
    unjudged = [(row, fault) for row in sample if (fault := gold_fault(row, recipe))]
    judged = [row for row in sample if all(row is not each for each, _ in unjudged)]
    say(f"{len(judged)} of {len(sample)} golds are right when echoed in the recipe's form, and can be told from others")
    for row, fault in unjudged:
        say(f"  {fault}: gold {row['solution'][-60:]!r} of {row['problem'][:80]!r}")
    if not judged:
        sys.exit("\naudit: no gold of this data can be judged")
    table = audited(problems(judged), judged, recipe, bound_rewards(recipe))
    say("\n" + _table(table, recipe))
    beaten = [pay.name for pay in table if pay.beats]
    if beaten:
        sys.exit(f"\naudit: honesty is beaten by {', '.join(beaten)}")
    say(f"\naudit: no cheat beats honesty\nnext: {make_command('grpo', recipe)}")


def _table(table: list[Pay], recipe: Recipe) -> str:
    mix = ", ".join(f"{options.get('weight', 1.0):g} {name}" for name, options in recipe.rewards.items())
    lines = [f"{recipe.name}: {mix}; {len(table[0].earned)} problems", "", "  mean    most  kind   response"]
    for pay in table:
        mark = f"  ← more than honesty on {pay.beats} of {len(pay.earned)}" if pay.beats else ""
        lines.append(f"{sum(pay.earned) / len(pay.earned):6.3f}  {max(pay.earned):6.3f}  {pay.kind}  {pay.name}{mark}")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument("--rows", type=int, default=100, help="how many problems of the training data")


if __name__ == "__main__":
    run("audit", main, add_arguments)
