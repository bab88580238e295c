"""The table of the stages that train. Whatever lists stages reads it. The values that the keys of a
section may have are in schema/values.py and schema/refused_keys.py."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Stage:
    """A stage that trains.

    Attributes:
        name: the name of its make target, its section, its folder, and its answers in a table.
        config: the path of trl's config class.
        depends_on: the keys of the recipe that its result depends on. The evaluation is not among
            them: more benchmarks do not make another run, unless they remove other problems from
            the training set, and data.json shows that.
        title: the name of the method in a model card.
        warm_start: whether it begins with the recipe's warm start. Its make target then runs the
            stages that it needs first.
        samples: whether its trainer samples groups of completions, which the rewards judge.
        defaults: our defaults for fields of its section.
    """

    name: str
    config: str
    depends_on: tuple[str, ...]
    title: str
    warm_start: bool = False
    samples: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)


_SFT = ("seed", "model", "adapter", "quantization", "data", "prompt", "tools", "sft")
_GRPO = (*_SFT, "rewards", "grpo")
_DISTILL = (*_SFT, "teacher", "distill")
_STAGES = (
    Stage(
        "sft",
        "trl.trainer.sft_config.SFTConfig",
        _SFT,
        title="an SFT warm start",
        # Our tokenised rows carry the mask of the completion.
        defaults={"completion_only_loss": True},
    ),
    Stage(
        "grpo",
        "trl.trainer.grpo_config.GRPOConfig",
        _GRPO,
        title="GRPO",
        warm_start=True,
        samples=True,
        # Completions are written to the run's folder, as parquet.
        defaults={"logging_steps": 5, "log_completions": True, "num_completions_to_print": 0},
    ),
    Stage(
        "distill",
        "trl.trainer.distillation_config.DistillationConfig",
        _DISTILL,
        title="on-policy distillation",
        warm_start=True,
        defaults={"logging_steps": 5},
    ),
)
STAGES = {stage.name: stage for stage in _STAGES}
# The make targets that run several stages: each that begins with a warm start. The first is the one
# that `make seeds` repeats.
CHAINS = tuple(stage.name for stage in _STAGES if stage.warm_start)
CHAIN = CHAINS[0]


def chain() -> str | None:
    """The target for which `make` runs this stage as one of several, and goes on with the next by
    itself; None where it runs this stage alone."""
    target = os.environ.get("MAKE_TARGET")
    return target if target in CHAINS else None


def audits_before_training() -> bool:
    """Whether rewards that pay a hack are refused; the user says AUDIT=off to train with them."""
    return os.environ.get("AUDIT") != "off"


def finished(stage: Path | str) -> bool:
    """Whether a stage that trains has ended in this folder. Its `summary.json` is written last."""
    return Path(stage, "summary.json").is_file()
