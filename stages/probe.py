"""Measures how often the policy that GRPO starts from solves each training problem, before GRPO
costs GPU hours.

A group of completions that are all correct or all incorrect teaches nothing, so the pass rates show
how much of the sampling would be in vain. `data.pass_rate` then chooses the problems by them.
"""

from console.faults import RecipeError
from console.terminal import make_command, say, say_markdown
from evaluation import sample
from runs.files import lock
from runs.identity import PASS_RATES
from schema.recipe import Recipe
from stages.cli import begin
from training.model import load_tokenizer
from training.problem_sets import load_train

PROBLEMS = 512


def main(recipe: Recipe, problems: int | None = None, samples: int | None = None) -> dict:
    """Measure how often the policy that GRPO starts from solves each training problem, sampled as
    GRPO will. Return the figures."""
    recipe = begin("probe", recipe, ("evaluate",))
    folder = recipe.stage_dir("probe")
    group_size = recipe.settings["grpo"]["num_generations"]
    lock(folder)
    policy = sample.starting_policy(recipe)
    label = "sft" if policy.trained else "base"
    tokenizer = load_tokenizer(recipe)
    rows, _ = load_train(recipe)
    ids = sample.draw_order(recipe, tokenizer, rows)
    last_probe = {}
    if (folder / PASS_RATES).is_file():
        last_probe, _ = sample.read_pass_rates(folder / PASS_RATES)
    problems = min(problems or last_probe.get("probed", PROBLEMS), len(ids))
    samples = samples or last_probe.get("samples", group_size)
    if problems * samples > sample.MAX_COMPLETIONS:
        message = (
            f"probe: {problems:,} problems × {samples:,} completions are more than the"
            f" {sample.MAX_COMPLETIONS:,} that a probe may have: ask for fewer by --problems and"
            " --samples"
        )
        raise RecipeError([message])
    drawn = [rows[i] for i in ids]
    stored = sample.stored_completions(folder, policy, tokenizer, drawn, problems, samples)
    source = policy.trained or "the base model"
    say(f"probe: {problems:,} of {len(ids):,} problems × {samples} completions of {source}")
    sample.sample_missing(stored, tokenizer)
    correct = sample.correct_per_problem(stored, samples)
    settings = sample.pass_rate_settings(policy, tokenizer, rows)
    figures = sample.write_pass_rates(folder, settings, stored, samples, ids[:problems], group_size)
    say()
    say_markdown(sample.pass_rate_table(figures, correct, label))
    advice = sample.change_before_grpo(figures, correct)
    if advice:
        say(f"\nadvice: {advice}")
    say(f"\nresults: {folder}")
    say(f"next: {make_command('grpo', recipe)}")
    return figures
