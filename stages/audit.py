"""What would a reward hack earn from a recipe's rewards, on a sample of its own data, before any
GPU hour is spent?

Every gold answer is echoed in the recipe's format and must be judged correct. Then every completion
of evaluation/audit.py is scored. A hack that earns more than an honest mistake on the same problem
fails the audit (exit code 1), and so does a trick around the correct answer that earns more than
the correct answer given plainly.
"""

import sys

from console.faults import RecipeError
from console.terminal import make_command, say
from evaluation.audit import (
    Pay,
    abbreviated,
    blind_rewards,
    sampled,
    score_completions,
    with_incorrect_answers,
    without_reward_models,
)
from schema.recipe import Recipe
from schema.rules import tolerance_of
from training.problem_sets import train_and_validation


def main(recipe: Recipe, rows: int = 100):
    """Score honest answers and reward hacks with a recipe's rewards."""
    train, _ = train_and_validation(recipe)
    recipe = without_reward_models(recipe)
    if rows < 1:
        raise RecipeError([f"--rows {rows}: at least one problem is needed"])
    gradable, ungraded = sampled(recipe, train, rows)
    count = len(gradable) + len(ungraded)
    say(
        f"{len(gradable)} of {count} gold answers are accepted when repeated, and an incorrect"
        " answer is not"
    )
    if recipe.tolerance:
        say(f"  {tolerance_of(recipe)}")
    for row, why in ungraded:
        say(f"  {why}: gold {row['solution'][-60:]!r} of {row['problem'][:80]!r}")
    if not gradable:
        sys.exit("\naudit: no gold answer of this data can be judged")
    problems = with_incorrect_answers(gradable, recipe.tolerance)
    table = score_completions(problems, gradable, recipe)
    say("\n" + _table(table, recipe))
    beaten = [pay.name for pay in table if pay.beats]
    for name, message in blind_rewards(table, recipe):
        say(f"\nrewards.{name} {message}")
    if beaten:
        sys.exit(f"\naudit: honest answers earn no more than {abbreviated(beaten)}")
    say("\naudit: no reward hack earns more than an honest answer")
    say(f"next: {make_command('grpo', recipe)}")


def _table(table: list[Pay], recipe: Recipe) -> str:
    mix = ", ".join(f"{weight:g} {name}" for name, weight in recipe.weights.items())
    lines = [
        f"{recipe.name}: {mix}; {len(table[0].earned)} problems",
        "",
        "  mean    most  kind   completion",
    ]
    for pay in table:
        mean = sum(pay.earned) / len(pay.earned)
        line = f"{mean:6.3f}  {max(pay.earned):6.3f}  {pay.kind}  {pay.name}"
        if pay.beats:
            than = "more than" if pay.more else "as much as"
            line += f"  ← {than} an honest answer on {pay.beats} of {len(pay.earned)}"
        lines.append(line)
    return "\n".join(lines)
