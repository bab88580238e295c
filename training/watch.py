"""Watches a run by the lines that it logs while it trains: sicknesses, each with the keys of the
recipe that treat it, and a reward that is gamed, which ends the run.

A rule looks at a window of lines, never at one, and speaks where it is clear: the mean is on the
wrong side of a threshold by more than two standard errors. docs/health.md has every threshold and
where it comes from. The rules read the lines of `metrics.jsonl` and the recipe's values alone, and
import neither torch nor trl, so that a report or a page may ask them too.
"""

import math
import re
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from schema.configs import ACCURACY, WITHOUT_SIGNAL, defaults
from schema.meaning import FORM, TRUTH
from schema.recipe import Recipe

WINDOW = 8  # logged lines that a rule judges together
START = 4  # logged lines that show how a run began
NO_SIGNAL = 0.6  # of the groups
TRUNCATED = 0.3  # of the completions
ENTROPY = 0.1  # of its value at the start
SOLVED = 0.9  # of the answers right: a policy that knows them need not try others
FORM_LEARNED = 0.9  # of the most that the rewards of the form pay
NOT_LEARNED = 0.05  # of the answers right
ALIKE = 1e-6  # what float32 makes of equal rewards
MISMATCH = 0.05  # between 1 and the mean ratio of the trainer's probabilities to vLLM's

# Of the training: completions sampled; our rewards; the rest of a step, which is forward, backward
# and optimizer; held-out problems answered; checkpoints written and sealed; and what is none of
# these, such as loading and logging.
PARTS = ("sampling", "rewards", "update", "evaluation", "saving", "rest")
CORRECT = ACCURACY.removeprefix("eval_")


class Advice(NamedTuple):
    """What to look at in a run. `step`: of the line that showed it. `rule`: its name in `RULES`.
    `message`: what is seen, and what to do."""

    step: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"step {self.step}: {self.message}"


def advice_on(lines: list[dict], recipe: Recipe | dict) -> list[Advice]:
    """All that the rules say of a run, each rule at most once, at the first line that shows it.

    Args:
        lines: those of `metrics.jsonl`, or of the trainer's own history, in their order.
        recipe: or what the run's `recipe.yaml` holds; where that is nothing a run writes, the rules
            say nothing.
    """
    try:
        history = History(recipe)
        return [advice for line in lines for advice in history.judge(line)]
    except (TypeError, KeyError, AttributeError, ArithmeticError):
        if isinstance(recipe, Recipe):
            raise
        return []


class History:
    """What a run has logged so far. `values`: the numbers of each metric, in order, without the
    lines of the learning rate's warm-up. `empty`: the lines since the last of them that had the
    metric and no number."""

    def __init__(self, recipe: Recipe | dict):
        self.own_settings = recipe["grpo"] if isinstance(recipe, dict) else recipe.grpo
        self.grpo = defaults("grpo") | self.own_settings
        warmup = self.grpo["warmup_steps"]
        self.warmup = warmup * max(0, self.grpo["max_steps"]) if warmup < 1 else warmup
        self.values: dict[str, list[float]] = defaultdict(list)
        self.empty: dict[str, int] = defaultdict(int)
        self.spoken: set[str] = set()  # the rules that gave advice

    def judge(self, line: dict) -> list[Advice]:
        """Take the next line in, and say what it is the first to show."""
        if line["step"] > self.warmup:
            # A line may have a few: trl logs a reward only where it sampled.
            for key, value in line.items():
                if isinstance(value, int | float) and math.isfinite(value):
                    self.values[key].append(value)
                    self.empty[key] = 0
                else:
                    self.empty[key] += 1
        new = []
        for name, rule in RULES.items():
            message = None if name in self.spoken else rule(self)
            if message:
                new.append(Advice(line["step"], name, message))
        self.spoken.update(advice.rule for advice in new)
        return new

    def last(self, key: str) -> "Mean | None":
        """Of the last window of a metric; None before there is one."""
        values = self.values.get(key, ())
        return mean(values[-WINDOW:]) if len(values) >= WINDOW else None

    def same(self) -> dict[str, float]:
        """What each reward paid to all completions of the last window; nothing where one told any
        two of them apart, or is known to judge the answer."""
        paid = {}
        for key in [key for key in self.values if re.fullmatch("rewards/.+/std", key)]:
            name, spread = key.split("/")[1], self.values[key][-WINDOW:]
            values = self.values[f"rewards/{name}/mean"][-WINDOW:]
            if name in TRUTH or max(spread) > ALIKE or max(values) - min(values) > ALIKE:
                return {}
            paid[name] = values[-1]
        return paid


class Mean(NamedTuple):
    """`error`: two standard errors."""

    value: float
    error: float

    @property
    def low(self) -> float:
        return self.value - self.error

    @property
    def high(self) -> float:
        return self.value + self.error


def mean(values: list[float]) -> Mean:
    """With the noise taken from one value to the next (von Neumann 1941), which a trend does not
    swell."""
    n = len(values)
    steps = sum((after - value) ** 2 for value, after in pairwise(values))
    return Mean(sum(values) / n, 2 * math.sqrt(steps / 2 / (n - 1) / n))


def no_signal(history: History) -> str | None:
    """Most groups earn the same reward for all their completions: all right, or all wrong."""
    flat, right = history.last(WITHOUT_SIGNAL), history.last(CORRECT)
    if flat is None or flat.low <= NO_SIGNAL:
        return None
    seen = f"{flat.value:.0%} of the groups taught nothing over the last {WINDOW} logged steps"
    if same := history.same():
        told = " and ".join(f"rewards.{name} {value:g}" for name, value in same.items())
        return (
            f"{seen}: every completion earned the same ({told}). Either none was ever right, or the"
            " reward does not see the answer: `make audit` says which (docs/your-reward.md)"
        )
    # At most 1 - flat of the answers are in groups that differ: the other right ones are in groups
    # all right.
    if right and right.value - (1 - flat.value) > flat.value / 2:
        return (
            f"{seen}, most of them all right ({right.value:.0%} of the answers are): these problems"
            " are too easy by now. Train on harder ones (data.train, or after `make probe`"
            " data.pass_rate: [0, 0.5]), or end the run"
        )
    if right and right.value < flat.value / 2:
        return (
            f"{seen}, most of them all wrong ({right.value:.0%} of the answers are right): these"
            " problems are too hard. Train on easier ones (data.train, or after `make probe`"
            " data.pass_rate: [0.1, 1]), warm up longer (sft.max_steps), or raise"
            f" grpo.num_generations (now {history.grpo['num_generations']})"
        )
    return (
        f"{seen} (all their completions earn the same): train on problems that are sometimes solved"
        " (after `make probe`, data.pass_rate: [0.1, 0.9])"
    )


def truncated(history: History) -> str | None:
    """Many completions reach the limit before they end, and most of these have no answer yet."""
    cut = history.last("completions/clipped_ratio")
    if cut is None or cut.low <= TRUNCATED:
        return None
    return (
        f"{cut.value:.0%} of the completions were cut off over the last {WINDOW} logged steps:"
        f" raise grpo.max_completion_length (now {history.grpo['max_completion_length']}). If the"
        " newest file in completions/ shows answers that do not stop, a longer warm start"
        " (sft.max_steps) teaches where to end"
    )


def entropy_collapse(history: History) -> str | None:
    """The policy has become nearly deterministic before it is right."""
    entropies, now, right = (
        history.values.get("entropy", ()),
        history.last("entropy"),
        history.last(CORRECT),
    )
    if len(entropies) < START + WINDOW or (right and right.value >= SOLVED):
        return None
    start = sum(entropies[:START]) / START
    if now.high >= ENTROPY * start:
        return None
    return (
        f"entropy fell to {now.value:.2g} nats per token, {now.value / start:.0%} of the"
        f" {start:.2g} at the"
        f" start{f', with {right.value:.0%} of the answers right' if right else ''}: the policy"
        " hardly tries anything new. Start again with a lower grpo.learning_rate (now"
        f" {history.grpo['learning_rate']:g}), or with a small grpo.entropy_coef"
    )


def form_only(history: History) -> str | None:
    """The form of an answer is learned, and answers are not."""
    form = [each for name in FORM if (each := history.last(f"rewards/{name}/mean"))]
    truth = [each for name in TRUTH if (each := history.last(f"rewards/{name}/mean"))]
    if not form or not truth or min(each.low for each in form) <= FORM_LEARNED:
        return None
    if max(each.high for each in truth) >= NOT_LEARNED:
        return None
    return (
        f"the form is learned (format rewards {min(each.value for each in form):.0%}) and answers"
        f" are not ({max(each.value for each in truth):.1%} right over the last {WINDOW} logged"
        " steps): GRPO cannot reward what is never sampled. Train on easier problems (data.train;"
        " `make probe` says which are solved at all), or give the warm start more worked solutions"
        " (sft.max_steps, data.worked)"
    )


def sampler_mismatch(history: History) -> str | None:
    """vLLM samples from another distribution than the trainer computes. Silent for ratios of whole
    sequences, which multiply up the rounding of all their tokens."""
    ratio = history.last("sampling/importance_sampling_ratio/mean")
    by_sequence = str(history.own_settings.get("vllm_importance_sampling_mode")).startswith(
        "sequence"
    )
    if ratio is None or by_sequence or abs(ratio.value - 1) - ratio.error <= MISMATCH:
        return None
    cut = [
        f"grpo.{key}"
        for key in ("top_p", "top_k", "min_p")
        if history.grpo[key] != defaults("grpo")[key]
    ]
    what = f"leave out {' and '.join(cut)}, which vLLM counts and the trainer does not"
    if not cut:
        what = (
            "set model.dtype to what vLLM computes in (bfloat16), or sample without it"
            " (grpo.use_vllm: false)"
        )
    return (
        "vLLM samples from another policy than the one that is trained: their probabilities of a"
        f" token have a mean ratio of {ratio.value:.3f} over the last {WINDOW} logged steps, not 1."
        f" To repair it, {what}"
    )


def no_reward(history: History) -> str | None:
    """A reward that gave numbers gives None to all: it broke, or applies to no problem of late,
    which look the same."""
    silent = [
        key
        for key in history.values
        if history.empty[key] >= WINDOW and re.fullmatch("rewards/.+/mean", key)
    ]
    names = " and ".join(f"rewards.{key.split('/')[1]}" for key in silent)
    return names and (
        f"{names} gave each completion None over the last {WINDOW} logged steps, and numbers"
        " before: if it is to apply to these problems, stop the run and see why (`make check`"
        " tries it); once mended, the same command goes on"
    )


RULES = {
    "no signal": no_signal,
    "truncated": truncated,
    "entropy collapse": entropy_collapse,
    "form only": form_only,
    "sampler mismatch": sampler_mismatch,
    "no reward": no_reward,
}


def gamed(
    judged: list[tuple[int, str]], rewards: list[tuple[int, float]], patience: int
) -> str | None:
    """The message to stop a run with whose training reward rises while held-out answers get worse,
    or None.

    Worse means that each of the last `patience` evaluations is clearly below the best (see `fell`):
    of a few hundred problems chance alone takes some away, and the best of many evaluations was
    lucky.

    Args:
        judged: (step, one "1" or "0" for each problem, in the same order) of every evaluation so
            far.
        rewards: (step, mean training reward) of every logged step so far.
        patience: how many evaluations in a row; 0 never stops.
    """
    if not judged:
        return None
    best_step, best = max(judged, key=lambda each: (_accuracy(each[1]), each[0]))
    since = [each for each in judged if each[0] > best_step]
    earlier = [reward for step, reward in rewards if step <= best_step]
    later = [reward for step, reward in rewards if step > best_step]
    if not 0 < patience <= len(since) or not earlier or not later:
        return None
    if not all(fell(best, right) for _, right in since[-patience:]):
        return None
    # As many logged steps as there are since the best, so that the slow start of a run does not
    # count as a rise.
    before = earlier[-len(later) :]
    risen = sum(later) / len(later) - sum(before) / len(before)
    if risen <= 0:
        return None
    step, now = since[-1]
    return (
        f"grpo: stopped at step {step}. Held-out accuracy was {_accuracy(best):.1%} at step"
        f" {best_step} and has been clearly below that for {patience} evaluations (now"
        f" {_accuracy(now):.1%}, n = {len(now)}), while the training reward rose by {risen:.3g}:"
        " the policy is rewarded for something other than right answers. Read the newest file in"
        " completions/, and try `make audit`. evaluate.patience sets how many evaluations to wait"
        " for; 0 never stops."
    )


def fell(best: str, now: str) -> bool:
    """Whether clearly more of the same problems were lost since than won: McNemar's z above 2."""
    pairs = list(zip(best, now, strict=False))
    lost, won = (sum(pair == (a, b) for pair in pairs) for a, b in (("1", "0"), ("0", "1")))
    return lost - won > 2 * math.sqrt(lost + won)


def _accuracy(right: str) -> float:
    return right.count("1") / max(1, len(right))
