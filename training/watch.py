"""Watches a run by the lines that it logs: rules that give advice, with the keys of the recipe to
change, and a check that ends a run whose reward is gamed.

The rules are the rows of `RULES`. Each looks at a window of lines, never at a single line, and
gives its sentence only where a mean is beyond its bound by more than two standard errors.
docs/trouble.md has every bound and where it comes from. The rules read only the lines of
`metrics.jsonl` and the recipe, and import neither torch nor trl, so that reports and pages can use
them too.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from schema.conditions import FORMAT, TRUTH
from schema.configs import ACCURACY, EVAL_CORRECT, STEP, ZERO_VARIANCE, defaults
from schema.recipe import Recipe
from training.trends import Mean, exactly, fell, flips, is_beyond, may_have_fallen, mean, rises

WINDOW = 8  # logged lines that a rule looks at together
START = 4  # logged lines that show how a run began
YOUNG = range(START, START + WINDOW + 1)  # logged lines of a run of which all are looked at
MOST_GROUPS = 0.6  # share of groups with zero variance
ALIKE = 0.45  # share of the groups, where it grows
BOTH = 0.15  # share of the groups that are all correct, and of those that are all incorrect
LOW_ENTROPY = 0.12  # nats per token
TRUNCATED = 0.3  # share of the completions
ENTROPY = 0.1  # share of its value at the start
SOLVED = 0.9  # share of correct answers, above which a policy need not explore
FORMAT_LEARNED = 0.9  # share of the highest value of the format rewards
NOT_LEARNED = 0.05  # share of correct answers
EQUAL = 1e-6  # the spread that float32 gives equal rewards
LEAST_FALL = 0.05  # of the share of correct answers, at a run's end
MISMATCH = 0.05  # nats between the trainer's and vLLM's log-probabilities of a token

# The parts of a training's time: sampling completions; rewards; the remainder of a step, which is
# forward, backward and optimizer; answering validation problems; writing checkpoints; and
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
        recipe: a recipe, or the contents of a run's `recipe.yaml`.
        ended: add what only the end shows (see `conclusion`).
    """
    history = History(recipe)
    advice = []
    for line in lines:
        advice += history.judge(line)
    if ended:
        advice += conclusion(lines, recipe, history.rules_done)
    return advice


class Rule(NamedTuple):
    """A row of `RULES`. The first row of a name that applies gives the name's advice.

    Attributes:
        name: as docs/trouble.md has it.
        bounds: (number of `History.message`, > or <, bound) that all must hold: the mean less, or
            plus, two standard errors is beyond the bound.
        sentence: the observation and the keys to change, with the numbers, the texts of
            `History.texts` and GRPO's settings in braces.
        since_start: whether a young run is looked at from its first line.
    """

    name: str
    bounds: tuple[tuple[str, str, float], ...]
    sentence: str
    since_start: bool = False


# Why a group teaches nothing is told once: by `alike`, or else by one of the rows below it.
FLAT = (("zero variance", ">", MOST_GROUPS), ("alike", "<", 1))
TAUGHT_NOTHING = (
    "{zero_variance:.0%} of the groups taught nothing over the last {window} logged steps"
)
ALIKE_AND_REMEDY = (
    "{zero_variance:.0%} of the groups taught nothing over {window} logged steps, KINDS: the policy"
    " answers alike ({entropy:.2g} nats per token). Start again with a shorter warm start"
    " (sft.max_steps), a higher grpo.temperature ({temperature:g}) or a lower grpo.learning_rate"
    " ({learning_rate:g})"
)
DIFFERS = (
    "vLLM samples from another policy than the one that is trained: their log-probabilities of a"
    " token differ by {difference:.3f} nats on average over the last {window} logged steps. To"
    " repair it, "
)
RULES = (
    # The policy varies its answers less and less since the run's start, or hardly at all, correct
    # or incorrect; and it learns nothing from those that it varies.
    Rule(
        "alike",
        (
            ("zero variance grows", ">", 0),
            ("zero variance", ">", ALIKE),
            ("entropy", "<", 2 * LOW_ENTROPY),
            ("correct rises", "<", 1),
        ),
        ALIKE_AND_REMEDY.replace("KINDS", "more and more"),
        since_start=True,
    ),
    Rule(
        "alike",
        (
            ("zero variance", ">", MOST_GROUPS),
            ("entropy", "<", LOW_ENTROPY),
            ("both kinds", ">", BOTH),
            ("correct rises", "<", 1),
        ),
        ALIKE_AND_REMEDY.replace("KINDS", "some all correct and some all incorrect"),
        since_start=True,
    ),
    # Most groups earn the same reward for all their completions: all correct, or all incorrect.
    Rule(
        "zero variance",
        (*FLAT, ("constant rewards", ">", 0)),
        f"{TAUGHT_NOTHING}: every completion earned the same ({{constants}}). Either none was ever"
        " correct, or the reward does not see the answer: `make audit` says which"
        " (docs/rewards.md)",
    ),
    Rule(
        "zero variance",
        (*FLAT, ("too easy", ">", 0)),
        f"{TAUGHT_NOTHING}, most of them all correct ({{correct:.0%}} of the answers are): these"
        " problems are too easy by now. Train on harder ones (data.train, or after `make probe`"
        " data.pass_rate: [0, 0.5]), or end the run",
    ),
    Rule(
        "zero variance",
        (*FLAT, ("too hard", ">", 0)),
        f"{TAUGHT_NOTHING}, most of them all incorrect ({{correct:.0%}} of the answers are correct)"
        ": these problems are too hard. Train on easier ones (data.train, or after `make probe`"
        " data.pass_rate: [0.1, 1]), warm up longer (sft.max_steps), or raise grpo.num_generations"
        " (now {num_generations})",
    ),
    Rule(
        "zero variance",
        FLAT,
        f"{TAUGHT_NOTHING} (all their completions earn the same): train on problems that are"
        " sometimes solved (after `make probe`, data.pass_rate: [0.1, 0.9]), or replace such groups"
        " (data.dynamic_sampling: 2)",
    ),
    # Many completions reach the limit before they end, and most of these have no answer yet.
    Rule(
        "truncated",
        (("truncated", ">", TRUNCATED),),
        "{truncated:.0%} of the completions were cut off over the last {window} logged steps: raise"
        " grpo.max_completion_length (now {max_completion_length}). If the newest file in"
        " completions/ shows answers that do not stop, a longer warm start (sft.max_steps) teaches"
        " where to end",
    ),
    # The policy has become nearly deterministic before it is correct.
    Rule(
        "entropy collapse",
        (("entropy of the first", "<", ENTROPY), ("solved", "<", SOLVED)),
        "entropy fell to {entropy:.2g} nats per token, {entropy_of_the_first:.0%} of the"
        " {first_entropy:.2g} at the start{accuracy}: the policy hardly tries anything new. Start"
        " again with a lower grpo.learning_rate (now {learning_rate:g}), or with a small"
        " grpo.entropy_coef",
    ),
    # The format is learned, and answers are not.
    Rule(
        "format only",
        (("format", ">", FORMAT_LEARNED), ("truth", "<", NOT_LEARNED)),
        "the format is learned (format rewards {format:.0%}) and answers are not ({truth:.1%}"
        " correct over the last {window} logged steps): GRPO cannot reward what is never sampled."
        " Train on easier problems (data.train; `make probe` says which are solved at all), or give"
        " the warm start more worked solutions (sft.max_steps, data.worked)",
    ),
    # vLLM samples from another distribution than the trainer computes. The mean ratio of the two
    # probabilities could not show it: over sampled tokens it is 1 for any two distributions.
    Rule(
        "sampler mismatch",
        (("difference", ">", MISMATCH), ("narrowed", ">", 0)),
        f"{DIFFERS}leave out {{narrowing}}, which vLLM counts and the trainer does not",
    ),
    Rule(
        "sampler mismatch",
        (("difference", ">", MISMATCH),),
        f"{DIFFERS}set model.dtype to what vLLM computes in (bfloat16), or sample without it"
        " (grpo.use_vllm: false)",
    ),
)
NAMES = tuple(dict.fromkeys(rule.name for rule in RULES))
METRICS = {
    "zero variance": ZERO_VARIANCE,
    "correct": CORRECT,
    "entropy": "entropy",
    "truncated": "completions/clipped_ratio",
    "difference": "sampling/sampling_logp_difference/mean",
}
NARROWING = ("top_p", "top_k", "min_p")  # vLLM counts what they leave out, and the trainer does not


class History:
    """What a run has logged so far, without the lines of the learning rate's warm-up.

    Attributes:
        values: the numbers of each metric, in order.
        rules_done: the names of the rules that gave advice.
        window: how many lines a rule looks at.
        narrowing: the keys that leave tokens out of what is sampled.
    """

    def __init__(self, recipe: Recipe | dict):
        meant = recipe if isinstance(recipe, dict) else recipe.resolved()
        self.grpo = meant["grpo"]
        warmup = self.grpo["warmup_steps"]
        if warmup < 1:
            warmup *= max(0, self.grpo["max_steps"])
        self.warmup = warmup
        changed = [key for key in NARROWING if self.grpo[key] != defaults("grpo")[key]]
        self.narrowing = [f"grpo.{key}" for key in changed]
        self.values: dict[str, list[float]] = defaultdict(list)
        self.rules_done: set[str] = set()
        self.window = WINDOW
        self.numbers: dict[int, dict[str, Mean]] = {}  # by window, after the last line

    def judge(self, line: dict) -> list[Advice]:
        """Add the next line, and return the advice of the rules that apply for the first time."""
        if line["step"] > self.warmup:
            # A line may lack some metrics: trl logs a reward only where it sampled.
            for key, value in line.items():
                if isinstance(value, int | float) and math.isfinite(value):
                    self.values[key].append(value)
        self.numbers.clear()
        new = []
        for name in NAMES:
            if name in self.rules_done:
                continue
            message = self.message(name)
            if message:
                new.append(Advice(line["step"], name, message))
                self.rules_done.add(name)
        return new

    def message(self, name: str) -> str | None:
        """The sentence of the first row of a name that applies now."""
        for rule in RULES:
            if rule.name != name:
                continue
            lines = len(self.values.get(ZERO_VARIANCE, ()))
            window = lines if rule.since_start and lines in YOUNG else self.window
            if window not in self.numbers:
                self.numbers[window] = self._numbers(window)
            numbers = self.numbers[window] | {"alike": exactly("alike" in self.rules_done)}
            if all(is_beyond(numbers.get(number), *bound) for number, *bound in rule.bounds):
                values = {key.replace(" ", "_"): mean.value for key, mean in numbers.items()}
                values |= self.texts(numbers) | {"window": window}
                return rule.sentence.format(**self.grpo | values)
        return None

    def _numbers(self, window: int) -> dict[str, Mean]:
        """The numbers that rules look at, over the last lines: the mean of each metric of `METRICS`
        that has a window, and what is made of them."""
        means = {name: self.last(key, window) for name, key in METRICS.items()}
        of_format = self.last_of_rewards(FORMAT, window)
        if of_format:
            value = min(reward.value for reward in of_format)
            means["format"] = Mean(value, value - min(reward.low for reward in of_format))
        truth = self.last_of_rewards(TRUTH, window)
        if truth:
            value = max(reward.value for reward in truth)
            means["truth"] = Mean(value, max(reward.high for reward in truth) - value)
        correct = means["correct"]
        entropy = means["entropy"]
        entropies = self.values.get("entropy", ())
        first = sum(entropies[:START]) / START
        if entropy and first and len(entropies) >= START + WINDOW:
            means["first entropy"] = exactly(first)
            means["entropy of the first"] = Mean(entropy.value / first, entropy.error / first)
        means["solved"] = exactly(correct.value if correct else 0)
        means["correct rises"] = exactly(rises(self.values[CORRECT]))
        means["constant rewards"] = exactly(len(self.constant_rewards(window)))
        means["narrowed"] = exactly(len(self.narrowing))
        means |= self._kinds_of_groups(means["zero variance"], correct)
        return {name: mean for name, mean in means.items() if mean is not None}

    def _kinds_of_groups(self, flat: Mean | None, correct: Mean | None) -> dict[str, Mean]:
        """How many of the zero-variance groups are all correct, and how many all incorrect."""
        if not flat or not correct:
            return {}
        # Of the groups with a signal about half of the answers are correct.
        all_correct = correct.value - (1 - flat.value) / 2
        grows = len(self.values[ZERO_VARIANCE]) in YOUNG and rises(self.values[ZERO_VARIANCE])
        return {
            "both kinds": exactly(min(all_correct, flat.value - all_correct)),
            # At most 1 - flat of the answers are in groups with a signal; more correct answers than
            # that must be in groups whose answers are all correct.
            "too easy": exactly(correct.value - (1 - flat.value) - flat.value / 2),
            "too hard": exactly(flat.value / 2 - correct.value),
            "zero variance grows": exactly(grows),
        }

    def texts(self, numbers: dict[str, Mean]) -> dict[str, str]:
        """What a sentence may say beside numbers."""
        constants = [f"rewards.{name} {value:g}" for name, value in self.constant_rewards().items()]
        accuracy = ""
        if "correct" in numbers:
            accuracy = f", with {numbers['correct'].value:.0%} of the answers correct"
        return {
            "constants": " and ".join(constants),
            "narrowing": " and ".join(self.narrowing),
            "accuracy": accuracy,
        }

    def last(self, key: str, window: int) -> Mean | None:
        """The mean of a metric's last window; None before there is a window."""
        values = self.values.get(key, ())
        if len(values) < window:
            return None
        return mean(values[-window:])

    def last_of_rewards(self, names: Iterable[str], window: int) -> list[Mean]:
        """The mean of the last window of each of these rewards that has a window."""
        means = [self.last(f"rewards/{name}/mean", window) for name in names]
        return [mean for mean in means if mean is not None]

    def constant_rewards(self, window: int | None = None) -> dict[str, float]:
        """The value that each reward gave to all completions of the last window; empty if a reward
        gave two values, or is one that judges the answer."""
        window = window or self.window
        constants = {}
        for key in list(self.values):  # looking up a mean may add its key
            if not re.fullmatch("rewards/.+/std", key):
                continue
            name = key.split("/")[1]
            deviations = self.values[key][-window:]
            values = self.values[f"rewards/{name}/mean"][-window:]
            if name in TRUTH or max(deviations) > EQUAL or max(values) - min(values) > EQUAL:
                return {}
            constants[name] = values[-1]
        return constants


def conclusion(lines: list[dict], recipe: Recipe | dict, rules_done: set[str]) -> list[Advice]:
    """What the end of a run shows, however short it was and however long its warm-up: nothing was
    ever learned, or answers got worse."""
    history = History(recipe)
    history.warmup = -1
    for line in lines:
        history.judge(line)
    flat = history.values[ZERO_VARIANCE]
    correct = history.values[CORRECT]
    messages = {"never correct": None, "fell": _fall(lines, history.grpo)}
    if flat and min(flat) == 1 and not rules_done & {"alike", "zero variance"}:
        history.window = len(flat)
        messages["alike"] = history.message("alike")
        messages["zero variance"] = None if messages["alike"] else history.message("zero variance")
    elif correct and max(correct) == 0 and not rules_done & {"zero variance", "format only"}:
        messages["never correct"] = (
            f"no completion was correct in {len(correct)} logged steps: train on easier problems"
            " (data.train; `make probe` says which are solved at all), or warm up longer"
            " (sft.max_steps)"
        )
    step = lines[-1]["step"] if lines else 0
    return [Advice(step, rule, message) for rule, message in messages.items() if message]


def _fall(lines: list[dict], grpo: dict) -> str | None:
    """How far the share of correct answers fell, on validation problems or else while training."""
    judged = [(line["step"], line[EVAL_CORRECT]) for line in lines if line.get(EVAL_CORRECT)]
    sampled = [{"step": 0}]
    for line in lines:
        if math.isfinite(line.get(CORRECT, math.nan)):
            sampled.append(line)
    correct = [line[CORRECT] for line in sampled[1:]]
    half = min(WINDOW, len(correct) // 2)
    if len(judged) > 1:
        step, now = judged[-1]
        best_step, best = max(judged, key=lambda evaluation: _accuracy(evaluation[1]))
        if may_have_fallen(*flips(judged[0][1], now)):
            best_step, best = judged[0]
        elif not fell(best, now):
            return None
        won, lost = flips(best, now)
        fall = f"validation accuracy fell from {_accuracy(best):.1%} at step {best_step} to"
        fall += f" {_accuracy(now):.1%} at step {step} ({won} won, {lost} lost)"
    elif half > 0:
        before = mean(correct[:half])
        after = mean(correct[-half:])
        noise = 2 * math.hypot(before.error, after.error)
        if half == 1:  # a single line has no spread
            noise = 2 * math.hypot(_error(*sampled[:2], grpo), _error(*sampled[-2:], grpo))
        if before.value - after.value <= max(noise, LEAST_FALL):
            return None
        fall = f"the share of correct answers fell from {before.value:.1%} to {after.value:.1%}"
    else:
        return None
    return (
        f"{fall}: start again with a lower grpo.learning_rate, or with some grpo.beta. If the"
        " reward rose, `make audit` says whether incorrect answers are paid"
    )


def _error(before: dict, line: dict, grpo: dict) -> float:
    """The standard error of a line's share of correct answers, by how many were sampled since the
    line before. The answers of a group that are all alike count as one."""
    steps = line["step"] - before["step"]
    completions = steps * grpo[STEP["grpo"]] / grpo["num_iterations"]
    flat = line.get(ZERO_VARIANCE, 0)
    n = max(1, completions * (flat / grpo["num_generations"] + 1 - flat))
    share = (line[CORRECT] * n + 1) / (n + 2)  # not 0 or 1 for few answers
    return math.sqrt(share * (1 - share) / n)


def gamed(
    judged: list[tuple[int, str]], rewards: list[tuple[int, float]], patience: int
) -> str | None:
    """The message with which to stop a run whose training reward rises while validation answers get
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
    if not all(fell(best, correct) for _, correct in since[-patience:]):
        return None
    # As many logged steps as there are since the best, so that the slow start of a run does not
    # count as a rise.
    before = earlier[-len(later) :]
    risen = sum(later) / len(later) - sum(before) / len(before)
    if risen <= 0:
        return None
    step, now = since[-1]
    return (
        f"grpo: stopped at step {step}. Validation accuracy was {_accuracy(best):.1%} at step"
        f" {best_step} and has been clearly below that for {patience} evaluations (now"
        f" {_accuracy(now):.1%}, n = {len(now)}), while the training reward rose by {risen:.3g}:"
        " the policy is rewarded for something other than correct answers. Read the newest file in"
        " completions/, and try `make audit`. evaluate.patience sets how many evaluations to wait"
        " for; 0 never stops."
    )


def _accuracy(correct: str) -> float:
    return correct.count("1") / max(1, len(correct))
