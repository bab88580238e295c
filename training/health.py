"""Advice while a run trains: sicknesses that its logged lines show, each with the keys of the recipe that treat it.

A rule looks at a window of lines, never at one, and speaks where it is clear: the mean is on the wrong side of a
threshold by more than two standard errors. docs/health.md has every threshold and where it comes from. The rules read
the lines of `metrics.jsonl` and the recipe's values alone, and import neither torch nor trl, so that a report or a page
may ask them too.
"""

import math
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

from schema.configs import ACCURACY
from schema.library_fields import defaults
from schema.recipe import Recipe
from schema.sections import Evaluate
from schema.warnings import FORM, TRUTH
from training.gamed import fell, gamed

WINDOW = 8  # logged lines that a rule judges together
START = 4  # logged lines that show how a run began
NO_SIGNAL = 0.6  # of the groups
TRUNCATED = 0.3  # of the completions
FALLS = 2  # evaluations in a row that are clearly below the best
ENTROPY = 0.1  # of its value at the start
SOLVED = 0.9  # of the answers right: a policy that knows them need not try others
KL = 0.5  # nats per token, trl's estimate
FORM_LEARNED = 0.9  # of the most that the rewards of the form pay
NOT_LEARNED = 0.05  # of the answers right
LONGER = 1.5  # times the length before
LOOKS_BACK = 3  # windows between which the length is compared
MISMATCH = 0.05  # between 1 and the mean ratio of the trainer's probabilities to vLLM's
CLIPPED = 0.1  # of the tokens

CORRECT = ACCURACY.removeprefix("eval_")
# As training.group_signal and training.best_checkpoint log them; importing these takes seconds.
FLAT = "groups_without_signal"
JUDGED = "eval_right"


class Advice(NamedTuple):
    """`step`: that of the line that showed it. `rule`: its name in `RULES`. `message`: what is seen, and what to do."""

    step: int
    rule: str
    message: str


def findings(history: list[dict], recipe: Recipe | dict) -> list[Advice]:
    """All that the rules say of a run, each rule at most once, at the first line that shows it.

    Args:
        history: the lines of `metrics.jsonl`, or the trainer's own history, in their order.
        recipe: or what the run's `recipe.yaml` holds.
    """
    run = Run(recipe)
    return [each for line in history for each in run.judge(line)]


class Run:
    """What a run has logged so far. `values`: the numbers of each metric, in order, without those of the learning
    rate's warm-up. `judged`: the evaluations. `rewards`: (step, mean training reward) of every line."""

    def __init__(self, recipe: Recipe | dict):
        given = recipe if isinstance(recipe, dict) else recipe.resolved()
        self.given = given["grpo"]
        self.grpo = defaults("grpo") | given["grpo"]
        self.patience = given.get("evaluate", {}).get("patience", Evaluate.patience)
        warmup = self.grpo["warmup_steps"]
        self.warmup = warmup * max(0, self.grpo["max_steps"]) if warmup < 1 else warmup
        self.values: dict[str, list[float]] = defaultdict(list)
        self.judged: list[dict] = []
        self.rewards: list[tuple[int, float]] = []
        self.said: set[str] = set()

    def judge(self, line: dict) -> list[Advice]:
        """Take the next line in, and say what it is the first to show."""
        numbers = {key: value for key, value in line.items() if isinstance(value, int | float) and math.isfinite(value)}
        if ACCURACY in numbers:
            self.judged.append(line)
        if "reward" in numbers:
            self.rewards.append((line["step"], line["reward"]))
        if line["step"] > self.warmup:
            for key, value in numbers.items():  # a line may have a few: trl logs a reward only where it sampled
                self.values[key].append(value)
        told = {name: rule(self) for name, rule in RULES.items() if name not in self.said}
        new = [Advice(line["step"], name, message) for name, message in told.items() if message]
        self.said.update(each.rule for each in new)
        return new

    def last(self, key: str) -> "Mean | None":
        """Of the last window of a metric; None before there is one."""
        values = self.values.get(key, ())
        return mean(values[-WINDOW:]) if len(values) >= WINDOW else None

    def before(self, key: str) -> "Mean | None":
        """Of a window as far before the last one as `LOOKS_BACK` allows; None where they would overlap."""
        values = self.values.get(key, ())
        return mean(values[-(LOOKS_BACK + 1) * WINDOW :][:WINDOW]) if len(values) >= 2 * WINDOW else None


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

    def above(self, other: "Mean") -> bool:
        return self.value - other.value > math.hypot(self.error, other.error)


def mean(values: list[float]) -> Mean:
    """With the noise taken from one value to the next (von Neumann 1941), which a trend does not swell."""
    n = len(values)
    steps = sum((after - value) ** 2 for value, after in pairwise(values))
    return Mean(sum(values) / n, 2 * math.sqrt(steps / 2 / (n - 1) / n) if n > 1 else math.inf)


def no_signal(run: Run) -> str | None:
    """Most groups earn the same reward for all their completions: all right, or all wrong."""
    flat, right = run.last(FLAT), run.last(CORRECT)
    if flat is None or flat.low <= NO_SIGNAL:
        return None
    seen = f"{flat.value:.0%} of the groups taught nothing over the last {WINDOW} logged steps"
    # At most 1 - flat of the answers are in groups that differ: the other right ones are in groups all right.
    if right and right.value - (1 - flat.value) > flat.value / 2:
        return (
            f"{seen}, most of them all right ({right.value:.0%} of the answers are): these problems are too easy by "
            "now. Train on harder ones (data.train, or after `make probe` data.pass_rate: [0, 0.5]), or end the run"
        )
    if right and right.value < flat.value / 2:
        return (
            f"{seen}, most of them all wrong ({right.value:.0%} of the answers are right): these problems are too "
            "hard. Train on easier ones (data.train, or after `make probe` data.pass_rate: [0.1, 1]), warm up longer "
            f"(sft.max_steps), or raise grpo.num_generations (now {run.grpo['num_generations']})"
        )
    return (
        f"{seen} (all their completions earn the same): train on problems that are sometimes solved (after `make "
        "probe`, data.pass_rate: [0.1, 0.9])"
    )


def truncated(run: Run) -> str | None:
    """Many completions reach the limit before they end, and most of these have no answer yet."""
    cut = run.last("completions/clipped_ratio")
    if cut is None or cut.low <= TRUNCATED:
        return None
    return (
        f"{cut.value:.0%} of the completions were cut off over the last {WINDOW} logged steps: raise "
        f"grpo.max_completion_length (now {run.grpo['max_completion_length']}). If the newest file in completions/ "
        "shows answers that do not stop, a longer warm start (sft.max_steps) teaches where to end"
    )


def gamed_soon(run: Run) -> str | None:
    """The reward rises while held-out accuracy falls. Silent where `evaluate.patience` ends the run, which says so."""
    if len(run.judged) <= FALLS:
        return None
    best = max(run.judged, key=lambda line: line[ACCURACY])
    since = [line for line in run.judged if line["step"] > best["step"]]
    later = [reward for step, reward in run.rewards if step > best["step"]]
    before = [reward for step, reward in run.rewards if step <= best["step"]][-len(later) :]
    if len(since) < FALLS or not all(fell(best.get(JUDGED, ""), line.get(JUDGED, "")) for line in since[-FALLS:]):
        return None
    if not before or not later or not mean(later).above(mean(before)):
        return None
    if gamed([(line["step"], line[JUDGED]) for line in run.judged if JUDGED in line], run.rewards, run.patience):
        return None
    stop = "evaluate.patience: 0 never stops such a run"
    if run.patience:
        stop = f"the run stops after {run.patience} evaluations below the best (evaluate.patience)"
    return (
        f"held-out accuracy fell from {best[ACCURACY]:.1%} at step {best['step']} to {since[-1][ACCURACY]:.1%} while "
        f"the training reward rose from {mean(before).value:.3g} to {mean(later).value:.3g}: the policy may be paid "
        "for something else. Read the newest file in completions/, try `make audit`, and lower the weights of "
        f"rewards other than correct_answer; {stop}"
    )


def entropy_collapse(run: Run) -> str | None:
    """The policy has become nearly deterministic before it is right."""
    entropies, now, right = run.values.get("entropy", ()), run.last("entropy"), run.last(CORRECT)
    if len(entropies) < START + WINDOW or (right and right.value >= SOLVED):
        return None
    start = sum(entropies[:START]) / START
    if now.high >= ENTROPY * start:
        return None
    return (
        f"entropy fell to {now.value:.2g} nats per token, {now.value / start:.0%} of the {start:.2g} at the start"
        f"{f', with {right.value:.0%} of the answers right' if right else ''}: the policy hardly tries anything new. "
        f"Start again with a lower grpo.learning_rate (now {run.grpo['learning_rate']:g}), or with a small "
        "grpo.entropy_coef"
    )


def kl_blow_up(run: Run) -> str | None:
    """The policy has left its reference; trl logs this only where `beta` is above 0."""
    kl = run.last("kl")
    if kl is None or kl.low <= KL:
        return None
    return (
        f"the policy has left its reference: KL {kl.value:.2g} nats per token over the last {WINDOW} logged steps. "
        f"Start again with a lower grpo.learning_rate (now {run.grpo['learning_rate']:g}) or a higher grpo.beta (now "
        f"{run.grpo['beta']:g})"
    )


def form_only(run: Run) -> str | None:
    """The form of an answer is learned, and answers are not."""
    form = [each for name in FORM if (each := run.last(f"rewards/{name}/mean"))]
    truth = [each for name in TRUTH if (each := run.last(f"rewards/{name}/mean"))]
    if not form or not truth or min(each.low for each in form) <= FORM_LEARNED:
        return None
    if max(each.high for each in truth) >= NOT_LEARNED:
        return None
    return (
        f"the form is learned (format rewards {min(each.value for each in form):.0%}) and answers are not "
        f"({max(each.value for each in truth):.1%} right over the last {WINDOW} logged steps): GRPO cannot reward what "
        "is never sampled. Train on easier problems (data.train; `make probe` says which are solved at all), or give "
        "the warm start more worked solutions (sft.max_steps, data.worked)"
    )


def length_creep(run: Run) -> str | None:
    """Completions get longer, and earn no more."""
    length, before = (get("completions/mean_length") for get in (run.last, run.before))
    reward, earlier = run.last("reward"), run.before("reward")
    if not before or not earlier or length.low <= LONGER * before.value or reward.above(earlier):
        return None
    biased = run.grpo["loss_type"] == "grpo"
    loss = "grpo.loss_type: dr_grpo (grpo spreads a long wrong answer's penalty thin), or " if biased else ""
    return (
        f"completions grew from {before.value:.0f} to {length.value:.0f} tokens and earn no more (reward "
        f"{earlier.value:.3g}, now {reward.value:.3g}): try {loss}the reward "
        "trl.rewards.get_soft_overlong_punishment, which charges for length"
    )


def sampler_mismatch(run: Run) -> str | None:
    """vLLM samples from another distribution than the trainer computes. Silent for ratios of whole sequences, which
    multiply up the rounding of all their tokens."""
    ratio = run.last("sampling/importance_sampling_ratio/mean")
    by_sequence = str(run.given.get("vllm_importance_sampling_mode")).startswith("sequence")
    if ratio is None or by_sequence or abs(ratio.value - 1) - ratio.error <= MISMATCH:
        return None
    cut = [f"grpo.{key}" for key in ("top_p", "top_k", "min_p") if run.grpo[key] != defaults("grpo")[key]]
    what = f"leave out {' and '.join(cut)}, which vLLM counts and the trainer does not"
    if not cut:
        what = "set model.dtype to what vLLM computes in (bfloat16), or sample without it (grpo.use_vllm: false)"
    return (
        "vLLM samples from another policy than the one that is trained: their probabilities of a token have a mean "
        f"ratio of {ratio.value:.3f} over the last {WINDOW} logged steps, not 1. To repair it, {what}"
    )


def clipping(run: Run) -> str | None:
    """Many tokens are outside the trust region and give no gradient. Silent for `importance_sampling_level: sequence`,
    which clips whole completions by design."""
    # The first pass over a batch clips nothing; with `num_iterations: 2` that may be every other line.
    shares = [each for each in run.values.get("clip_ratio/region_mean", ())[-2 * WINDOW :] if each][-WINDOW:]
    if len(shares) < WINDOW or run.grpo["importance_sampling_level"] == "sequence":
        return None
    clipped = mean(shares)
    if clipped.low <= CLIPPED:
        return None
    return (
        f"{clipped.value:.0%} of the tokens were clipped over the last {WINDOW} logged steps: the policy moves too far "
        f"on one batch. Lower grpo.learning_rate (now {run.grpo['learning_rate']:g}), or train on each batch less "
        f"often (grpo.num_iterations, now {run.grpo['num_iterations']}; grpo.steps_per_generation)"
    )


RULES = {
    "no signal": no_signal,
    "truncated": truncated,
    "gamed": gamed_soon,
    "entropy collapse": entropy_collapse,
    "KL blow-up": kl_blow_up,
    "form only": form_only,
    "length creep": length_creep,
    "sampler mismatch": sampler_mismatch,
    "clipping": clipping,
}
