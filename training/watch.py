"""Watches a run by the lines that it logs: rules that give advice, with the keys of the recipe to
change, and a check that ends a run whose reward is gamed.

A rule looks at a window of lines, never at a single line, and gives advice only where a mean is
beyond its threshold by more than two standard errors. docs/trouble.md has every threshold and where
it comes from. The rules read only the lines of `metrics.jsonl` and the recipe, and import neither
torch nor trl, so that reports and pages can use them too.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from schema.advice import FORM, TRUTH
from schema.configs import ACCURACY, RIGHT, WITHOUT_SIGNAL, defaults, generation
from schema.recipe import Recipe

WINDOW = 8  # logged lines that a rule looks at together
START = 4  # logged lines that show how a run began
NO_SIGNAL = 0.6  # share of the groups
ALIKE = 0.45  # share of the groups, where it grows
BOTH = 0.15  # share of the groups that are all right, and of those that are all wrong
LOW_ENTROPY = 0.12  # nats per token
TRUNCATED = 0.3  # share of the completions
ENTROPY = 0.1  # share of its value at the start
SOLVED = 0.9  # share of right answers, above which a policy need not explore
FORM_LEARNED = 0.9  # share of the highest value of the format rewards
NOT_LEARNED = 0.05  # share of right answers
EQUAL = 1e-6  # the spread that float32 gives equal rewards
LEAST_FALL = 0.05  # of the share of right answers, at a run's end
SUSPECT = 0.1  # the chance of a loss below which a run is worth a look
MISMATCH = 0.05  # nats between the trainer's and vLLM's log-probabilities of a token

# The parts of a training's time: sampling completions; our rewards; the remainder of a step, which
# is forward, backward and optimizer; answering held-out problems; writing checkpoints; and
# everything else, such as loading and logging.
PARTS = ("sampling", "rewards", "update", "evaluation", "saving", "rest")
CORRECT = ACCURACY.removeprefix("eval_")


class Advice(NamedTuple):
    """What to look at in a run. `step`: the step of the first line where the rule applied. `rule`:
    the rule's name in `RULES`. `message`: the observation, and what to do."""

    step: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"step {self.step}: {self.message}"


def advice_on(lines: list[dict], recipe: Recipe | dict, ended: bool = False) -> list[Advice]:
    """The rules' advice on a run, at most once per rule, at the first line where the rule applies.

    Args:
        lines: the lines of `metrics.jsonl`, or of the trainer's history, in order.
        recipe: a recipe, or the contents of a run's `recipe.yaml`; there is no advice if that is
            not what a run writes.
        ended: add what only the end shows (see `conclusion`).
    """
    try:
        history = History(recipe)
        advice = []
        for line in lines:
            advice += history.judge(line)
        if ended:
            advice += conclusion(lines, recipe, history.rules_done)
        return advice
    except (TypeError, KeyError, AttributeError, ArithmeticError):
        if isinstance(recipe, Recipe):
            raise
        return []


class History:
    """What a run has logged so far, without the lines of the learning rate's warm-up.

    Attributes:
        values: the numbers of each metric, in order.
    """

    def __init__(self, recipe: Recipe | dict):
        settings = recipe["grpo"] if isinstance(recipe, dict) else recipe.grpo
        self.grpo = defaults("grpo") | settings
        warmup = self.grpo["warmup_steps"]
        if warmup < 1:
            warmup *= max(0, self.grpo["max_steps"])
        self.warmup = warmup
        self.values: dict[str, list[float]] = defaultdict(list)
        self.rules_done: set[str] = set()  # the rules that gave advice
        self.window = WINDOW

    def judge(self, line: dict) -> list[Advice]:
        """Add the next line, and return the advice of the rules that apply for the first time."""
        if line["step"] > self.warmup:
            # A line may lack some metrics: trl logs a reward only where it sampled.
            for key, value in line.items():
                if isinstance(value, int | float) and math.isfinite(value):
                    self.values[key].append(value)
        new = []
        for name, rule in RULES.items():
            if name in self.rules_done:
                continue
            message = rule(self)
            if message:
                new.append(Advice(line["step"], name, message))
                self.rules_done.add(name)
        return new

    def last(self, key: str, window: int | None = None) -> "Mean | None":
        """The mean of a metric's last window; None before there is a window."""
        window = window or self.window
        values = self.values.get(key, ())
        if len(values) < window:
            return None
        return mean(values[-window:])

    def last_of_rewards(self, names: Iterable[str]) -> "list[Mean]":
        """The mean of the last window of each of these rewards that has a window."""
        means = [self.last(f"rewards/{name}/mean") for name in names]
        return [mean for mean in means if mean is not None]

    def constant_rewards(self) -> dict[str, float]:
        """The value that each reward gave to all completions of the last window; empty if a reward
        gave two values, or is one that judges the answer."""
        constants = {}
        for key in list(self.values):  # looking up a mean may add its key
            if not re.fullmatch("rewards/.+/std", key):
                continue
            name = key.split("/")[1]
            deviations = self.values[key][-self.window :]
            values = self.values[f"rewards/{name}/mean"][-self.window :]
            if name in TRUTH or max(deviations) > EQUAL or max(values) - min(values) > EQUAL:
                return {}
            constants[name] = values[-1]
        return constants


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
    """The mean, with its noise estimated from the differences of successive values (von Neumann
    1941), which a trend hardly raises."""
    n = len(values)
    steps = sum((after - value) ** 2 for value, after in pairwise(values))
    return Mean(sum(values) / n, 2 * math.sqrt(steps / 2 / max(1, n - 1) / n))


def rises(values: list[float]) -> bool:
    """Whether the second half of the values is higher than the first, beyond their noise."""
    half = len(values) // 2
    if half < START // 2:
        return False
    before = mean(values[:half])
    after = mean(values[-half:])
    return after.value - before.value > math.hypot(before.error, after.error)


def alike(history: History) -> str | None:
    """The policy hardly varies its answers, right or wrong, and learns nothing from those that it
    varies; or it varies them less and less since the run's start."""
    lines = len(history.values.get(WITHOUT_SIGNAL, ()))
    is_start = START <= lines <= START + WINDOW
    window = lines if is_start else history.window
    keys = (WITHOUT_SIGNAL, CORRECT, "entropy")
    flat, right, entropy = (history.last(key, window) for key in keys)
    if not (flat and right and entropy) or rises(history.values[CORRECT]):
        return None
    # Of the groups with a signal about half of the answers are right.
    all_right = right.value - (1 - flat.value) / 2
    both = min(all_right, flat.value - all_right)
    varies_little = entropy.high < LOW_ENTROPY and both > BOTH and flat.low > NO_SIGNAL
    grows = is_start and flat.low > ALIKE and rises(history.values[WITHOUT_SIGNAL])
    varies_less = grows and entropy.high < 2 * LOW_ENTROPY
    if not (varies_little or varies_less):
        return None
    kinds = "more and more" if varies_less else "some all right and some all wrong"
    return (
        f"{flat.value:.0%} of the groups taught nothing over {window} logged steps, {kinds}: the"
        f" policy answers alike ({entropy.value:.2g} nats per token). Start again with a shorter"
        f" warm start (sft.max_steps), a higher grpo.temperature ({history.grpo['temperature']:g})"
        f" or a lower grpo.learning_rate ({history.grpo['learning_rate']:g})"
    )


def no_signal(history: History) -> str | None:
    """Most groups earn the same reward for all their completions: all right, or all wrong."""
    flat = history.last(WITHOUT_SIGNAL)
    right = history.last(CORRECT)
    if flat is None or flat.low <= NO_SIGNAL:
        return None
    if "alike" in history.rules_done or alike(history):
        return None
    observation = (
        f"{flat.value:.0%} of the groups taught nothing over the last {history.window} logged steps"
    )
    constants = history.constant_rewards()
    if constants:
        values = " and ".join(f"rewards.{name} {value:g}" for name, value in constants.items())
        return (
            f"{observation}: every completion earned the same ({values}). Either none was ever"
            " right, or the reward does not see the answer: `make audit` says which"
            " (docs/rewards.md)"
        )
    # At most 1 - flat of the answers are in groups with a signal; more right answers than that
    # must be in groups whose answers are all right.
    if right and right.value - (1 - flat.value) > flat.value / 2:
        return (
            f"{observation}, most of them all right ({right.value:.0%} of the answers are): these"
            " problems are too easy by now. Train on harder ones (data.train, or after `make probe`"
            " data.pass_rate: [0, 0.5]), or end the run"
        )
    if right and right.value < flat.value / 2:
        return (
            f"{observation}, most of them all wrong ({right.value:.0%} of the answers are right):"
            " these problems are too hard. Train on easier ones (data.train, or after `make probe`"
            " data.pass_rate: [0.1, 1]), warm up longer (sft.max_steps), or raise"
            f" grpo.num_generations (now {history.grpo['num_generations']})"
        )
    return (
        f"{observation} (all their completions earn the same): train on problems that are sometimes"
        " solved (after `make probe`, data.pass_rate: [0.1, 0.9])"
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
    entropies = history.values.get("entropy", ())
    now = history.last("entropy")
    right = history.last(CORRECT)
    if len(entropies) < START + WINDOW or (right and right.value >= SOLVED):
        return None
    start = sum(entropies[:START]) / START
    if now.high >= ENTROPY * start:
        return None
    accuracy = f", with {right.value:.0%} of the answers right" if right else ""
    return (
        f"entropy fell to {now.value:.2g} nats per token, {now.value / start:.0%} of the"
        f" {start:.2g} at the start{accuracy}: the policy hardly tries"
        f" anything new. Start again with a lower grpo.learning_rate (now"
        f" {history.grpo['learning_rate']:g}), or with a small grpo.entropy_coef"
    )


def form_only(history: History) -> str | None:
    """The form of an answer is learned, and answers are not."""
    form = history.last_of_rewards(FORM)
    truth = history.last_of_rewards(TRUTH)
    if not form or not truth or min(reward.low for reward in form) <= FORM_LEARNED:
        return None
    if max(reward.high for reward in truth) >= NOT_LEARNED:
        return None
    lowest_form = min(reward.value for reward in form)
    highest_truth = max(reward.value for reward in truth)
    return (
        f"the form is learned (format rewards {lowest_form:.0%}) and answers are not"
        f" ({highest_truth:.1%} right over the last {WINDOW} logged steps): GRPO cannot"
        " reward what is never sampled. Train on easier problems (data.train; `make probe` says"
        " which are solved at all), or give the warm start more worked solutions"
        " (sft.max_steps, data.worked)"
    )


def sampler_mismatch(history: History) -> str | None:
    """vLLM samples from another distribution than the trainer computes. The mean ratio of the two
    probabilities could not show it: over sampled tokens it is 1 for any two distributions."""
    difference = history.last("sampling/sampling_logp_difference/mean")
    if difference is None or difference.low <= MISMATCH:
        return None
    changed = []
    for key in ("top_p", "top_k", "min_p"):
        if history.grpo[key] != defaults("grpo")[key]:
            changed.append(f"grpo.{key}")
    remedy = f"leave out {' and '.join(changed)}, which vLLM counts and the trainer does not"
    if not changed:
        remedy = (
            "set model.dtype to what vLLM computes in (bfloat16), or sample without it"
            " (grpo.use_vllm: false)"
        )
    return (
        "vLLM samples from another policy than the one that is trained: their log-probabilities of"
        f" a token differ by {difference.value:.3f} nats on average over the last {WINDOW} logged"
        f" steps. To repair it, {remedy}"
    )


RULES = {
    "no signal": no_signal,
    "alike": alike,
    "truncated": truncated,
    "entropy collapse": entropy_collapse,
    "form only": form_only,
    "sampler mismatch": sampler_mismatch,
}


def conclusion(lines: list[dict], recipe: Recipe | dict, rules_done: set[str]) -> list[Advice]:
    """What the end of a run shows, however short it was and however long its warm-up: nothing was
    ever learned, or answers got worse."""
    history = History(recipe)
    history.warmup = -1
    for line in lines:
        history.judge(line)
    flat = history.values[WITHOUT_SIGNAL]
    right = history.values[CORRECT]
    messages = {"never right": None, "fell": _fall(lines, history.grpo)}
    if flat and min(flat) == 1 and not rules_done & {"alike", "no signal"}:
        history.window = len(flat)
        messages["alike"] = alike(history)
        messages["no signal"] = no_signal(history)
    elif right and max(right) == 0 and not rules_done & {"no signal", "form only"}:
        messages["never right"] = (
            f"no completion was right in {len(right)} logged steps: train on easier problems"
            " (data.train; `make probe` says which are solved at all), or warm up longer"
            " (sft.max_steps)"
        )
    step = lines[-1]["step"] if lines else 0
    return [Advice(step, rule, message) for rule, message in messages.items() if message]


def _fall(lines: list[dict], grpo: dict) -> str | None:
    """How far the share of right answers fell, on held-out problems or else while training."""
    judged = [(line["step"], line[RIGHT]) for line in lines if line.get(RIGHT)]
    sampled = [{"step": 0}]
    for line in lines:
        if math.isfinite(line.get(CORRECT, math.nan)):
            sampled.append(line)
    right = [line[CORRECT] for line in sampled[1:]]
    half = min(WINDOW, len(right) // 2)
    if len(judged) > 1:
        step, now = judged[-1]
        best_step, best = max(judged, key=lambda evaluation: _accuracy(evaluation[1]))
        if may_have_fallen(*flips(judged[0][1], now)):
            best_step, best = judged[0]
        elif not fell(best, now):
            return None
        won, lost = flips(best, now)
        fall = f"held-out accuracy fell from {_accuracy(best):.1%} at step {best_step} to"
        fall += f" {_accuracy(now):.1%} at step {step} ({won} won, {lost} lost)"
    elif half > 0:
        before = mean(right[:half])
        after = mean(right[-half:])
        noise = 2 * math.hypot(before.error, after.error)
        if half == 1:  # a single line has no spread
            noise = 2 * math.hypot(_error(*sampled[:2], grpo), _error(*sampled[-2:], grpo))
        if before.value - after.value <= max(noise, LEAST_FALL):
            return None
        fall = f"the share of right answers fell from {before.value:.1%} to {after.value:.1%}"
    else:
        return None
    return (
        f"{fall}: start again with a lower grpo.learning_rate, or with some grpo.beta. If the"
        " reward rose, `make audit` says whether wrong answers are paid"
    )


def _error(before: dict, line: dict, grpo: dict) -> float:
    """The standard error of a line's share of right answers, by how many were sampled since the
    line before. The answers of a group that are all alike count as one."""
    batches = generation(grpo, 1)
    steps = line["step"] - before["step"]
    completions = batches.completions * steps * grpo["gradient_accumulation_steps"] / batches.cycle
    flat = line.get(WITHOUT_SIGNAL, 0)
    n = max(1, completions * (flat / grpo["num_generations"] + 1 - flat))
    share = (line[CORRECT] * n + 1) / (n + 2)  # not 0 or 1 for few answers
    return math.sqrt(share * (1 - share) / n)


def gamed(
    judged: list[tuple[int, str]], rewards: list[tuple[int, float]], patience: int
) -> str | None:
    """The message with which to stop a run whose training reward rises while held-out answers get
    worse, or None.

    Worse means that each of the last `patience` evaluations is clearly below the best (see `fell`):
    a few hundred problems vary by chance, and the best of many evaluations was lucky.

    Args:
        judged: every evaluation so far as (step, a "1" or "0" for each problem, in the same order).
        rewards: every logged step so far as (step, mean training reward).
        patience: the number of evaluations in a row; 0 never stops.
    """
    if not judged:
        return None
    # The later of two equally good evaluations counts as the best.
    best_step, best = max(judged, key=lambda evaluation: (_accuracy(evaluation[1]), evaluation[0]))
    since = [evaluation for evaluation in judged if evaluation[0] > best_step]
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
    won, lost = flips(best, now)
    return lost - won > 2 * math.sqrt(lost + won)


def flips(before: str, now: str) -> tuple[int, int]:
    """How many of the same problems were won, and lost."""
    pairs = list(zip(before, now, strict=False))
    return pairs.count(("0", "1")), pairs.count(("1", "0"))


def may_have_fallen(won: int, lost: int) -> bool:
    """Whether as uneven a split has a chance below one in ten where nothing changed: the one-sided
    sign test. It is worth a look, and no proof: 4 of 4 lost are, at 1/16."""
    n = won + lost
    return n > 0 and sum(math.comb(n, k) for k in range(lost, n + 1)) < SUSPECT * 2**n


def _accuracy(right: str) -> float:
    return right.count("1") / max(1, len(right))
