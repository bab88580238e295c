"""What the benchmark of learning compares: its tasks, and on each of them the arms, as overrides of a recipe."""

from dataclasses import dataclass, field

from schema.configs import generation

DEFAULTS, TUNED, OURS = "trl defaults", "trl tuned", "ours"


@dataclass(frozen=True)
class Task:
    """`overrides`: of the recipe, in every arm. `completions`: what an arm may generate. `points`: of the curve.
    `problems`: that each point is measured on. `arms`: name to settings, of `grpo` where a key has no
    dot. `groups`: names of several arms."""

    name: str
    recipe: str
    overrides: list[str]
    completions: int
    points: int
    problems: int
    arms: dict[str, dict]
    groups: dict[str, list[str]] = field(default_factory=dict)

    def named(self, names: list[str]) -> list[str]:
        found = [
            arm for name in names for arm in self.groups.get(name, list(self.arms) if name == "benchmark" else [name])
        ]
        if unknown := [arm for arm in found if arm not in self.arms]:
            raise SystemExit(f"{self.name} has no arm {', '.join(unknown)}: there are {', '.join(self.arms)}")
        return list(dict.fromkeys(found))

    def budget(self, arm: str) -> list[str]:
        """The overrides of an arm, with as many steps as its completions last."""
        values = {"per_device_train_batch_size": 64, "num_generations": 8, "num_iterations": 1} | self.arms[arm]
        values = {key: value for key, value in values.items() if key not in OF_THE_BENCHMARK}
        sampled = generation({key: value for key, value in values.items() if "." not in key})
        batches = (self.completions - self.probed(arm)) / sampled.completions / self.arms[arm].get("spends", 1)
        steps = int(batches * sampled.cycle / values.get("gradient_accumulation_steps", 1)) // self.points * self.points
        values |= {"max_steps": steps, "save_steps": steps // self.points, "save_total_limit": self.points + 1}
        values |= {"logging_steps": steps // self.points}
        return [f"{key if '.' in key else f'grpo.{key}'}={value}" for key, value in values.items()]

    def settings(self, arm: str) -> dict:
        """All that a run depends on but its seed and its problems, as JSON has it."""
        settings = {"recipe": self.recipe, "overrides": [*self.overrides, *self.budget(arm)]}
        return settings | {key: str(self.arms[arm].get(key)) for key in OF_THE_BENCHMARK}

    def probed(self, arm: str) -> int:
        """The completions of its probe."""
        problems, samples = self.arms[arm].get("probe", (0, 0))
        return problems * samples


# Settings that no recipe has: a trainer of trainers.py, about how many times its batch that samples (so that its
# learning rate has fallen when its completions are spent), and the problems and samples of a probe before the training.
OF_THE_BENCHMARK = ("trainer", "spends", "probe")

TRL = {"learning_rate": 1e-6, "per_device_train_batch_size": 8}  # one group a step
# Its demo for Qwen2.5-1.5B, with a batch of 64 in place of the 7,168 completions that seven GPUs sample.
OPEN_R1 = {"learning_rate": 2e-5, "num_generations": 16, "lr_scheduler_type": "cosine", "warmup_steps": 0.1}


def _rate(rate: float, **others) -> dict:
    return {"learning_rate": rate, **others}


def _falling(rate: float, power: float) -> dict:
    """Highest at first, when nothing is known, and for most of the run low."""
    return _rate(rate, lr_scheduler_type="polynomial", lr_scheduler_kwargs={"power": power, "lr_end": 0.0})


def _batch(size: int) -> dict:
    return {"per_device_train_batch_size": size}


# The grid that trl's learning rate, batch and number of iterations were tuned on.
GRID = {
    **{f"lr {rate:g}": _rate(rate) for rate in (3e-5, 1e-4, 2e-4)},
    **{f"μ 2, lr {rate:g}": _rate(rate, num_iterations=2) for rate in (5e-5, 1e-4)},
    **{f"μ 4, lr {rate:g}": _rate(rate, num_iterations=4) for rate in (3e-5, 1e-4)},
    "batch 8, lr 0.0001": _rate(1e-4, **_batch(8)),
    **{f"batch 16, lr {rate:g}": _rate(rate, **_batch(16)) for rate in (3e-5, 1e-4)},
    "batch 16, μ 2, lr 3e-05": _rate(3e-5, num_iterations=2, **_batch(16)),
    **{f"batch 32, lr {rate:g}": _rate(rate, **_batch(32)) for rate in (5e-5, 1e-4)},
    **{f"batch 32, μ 2, lr {rate:g}": _rate(rate, num_iterations=2, **_batch(32)) for rate in (3e-5, 5e-5, 1e-4)},
    "batch 32, μ 4, lr 3e-05": _rate(3e-5, num_iterations=4, **_batch(32)),
    "batch 128, lr 0.0002": _rate(2e-4, **_batch(128)),
}
TUNED_TRL = GRID["batch 32, μ 2, lr 5e-05"]
# One thing changed in tuned trl.
CHANGES = {
    "warm-up 10%": {"warmup_steps": 0.1},
    "constant rate": {"lr_scheduler_type": "constant"},
    "cosine": {"lr_scheduler_type": "cosine"},
    "1e-4, falling as a square": _falling(1e-4, 2.0),
    "1e-4, falling as a cube": _falling(1e-4, 3.0),
    "β₂ 0.95": {"adam_beta2": 0.95},
    "scale none": {"scale_rewards": "none"},
    "scale batch": {"scale_rewards": "batch"},
    "loss grpo": {"loss_type": "grpo"},
    "loss dr_grpo": {"loss_type": "dr_grpo"},
    "clip-higher": {"epsilon_high": 0.28},
    "GSPO": {"importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4, "epsilon_high": 4e-4},
    "β 0.001": {"beta": 0.001},
    "β 0.04": {"beta": 0.04},
    "groups of 4": {"num_generations": 4},
    "groups of 16": {"num_generations": 16},
    "temperature 0.8": {"temperature": 0.8},
    "max_grad_norm 0.2": {"max_grad_norm": 0.2},
    "20% most uncertain tokens": {"top_entropy_quantile": 0.2},
    "form unpaid": {"rewards.format_tags.weight": 0.0},
    "β 0.001, temperature 0.8": {"beta": 0.001, "temperature": 0.8},
    "β 0.001, temperature 0.8, groups of 4": {"beta": 0.001, "temperature": 0.8, "num_generations": 4},
    # Other ways to spend the samples.
    "probe": {"probe": (240, 4), "data.pass_rate": [0.1, 0.9]},
    "probe, easy first": {"probe": (240, 4), "data.pass_rate": [0.1, 0.9], "data.order": "easy first"},
    "oracle": {"trainer": "oracle"},
    "refill": {"trainer": "refill", "spends": 1.5},
    "replay": {"trainer": "replay"},
}
# `ours`: of the study's arms, the one whose area is largest over tuned trl's (docs/study.md).
BENCHMARK = {DEFAULTS: TRL, "open-r1": OPEN_R1, TUNED: TUNED_TRL, OURS: TUNED_TRL | CHANGES["β 0.001, temperature 0.8"]}
ARMS = BENCHMARK | GRID | {name: TUNED_TRL | change for name, change in CHANGES.items()}


SUMS = "tests.bench.learning.sums.sums"


def tiny(name: str, *digits: int) -> Task:
    """Sums of a tiny model whose teacher forgets seven carries in ten."""
    train = [f"{SUMS}: {{digits: {each}, forgotten: 0.7, rows: {8000 // len(digits)}}}" for each in digits]
    test = [f"{SUMS}: {{digits: {each}, rows: {400 // len(digits)}}}" for each in digits]
    overrides = [f"data.train=[{', '.join(train)}]", f"evaluate.benchmarks=[{', '.join(test)}]"]
    overrides += ["sft.max_steps=450", "grpo.max_completion_length=72"]
    groups = {"grid": list(GRID), "changes": [TUNED, *CHANGES], "benchmark": list(BENCHMARK)}
    return Task(name, "recipes/tiny-arithmetic.yaml", overrides, 3840, 10, 200, ARMS, groups)


# Shows that the benchmark works, in a minute; it learns nothing.
SMOKE = ["sft.max_steps=20", "grpo.max_completion_length=24"]

TASKS = {
    task.name: task
    for task in (
        Task("smoke", "recipes/tiny-arithmetic.yaml", SMOKE, 256, 2, 16, {DEFAULTS: TRL, OURS: _rate(1e-4)}),
        tiny("four digits", 4),
        tiny("two to four digits", 2, 3, 4),
    )
}
