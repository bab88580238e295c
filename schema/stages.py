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
        samples: whether its trainer samples completions.
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
)
STAGES = {stage.name: stage for stage in _STAGES}
# The make target that runs several stages.
CHAIN = "grpo"


def chain() -> str | None:
    """The target for which `make` runs this stage as one of several, and goes on with the next by
    itself; None where it runs this stage alone."""
    return CHAIN if os.environ.get("MAKE_TARGET") == CHAIN else None


def audits_before_training() -> bool:
    """Whether rewards that pay a hack are refused; the user says AUDIT=off to train with them."""
    return os.environ.get("AUDIT") != "off"


def finished(stage: Path | str) -> bool:
    """Whether a stage that trains has ended in this folder. Its `summary.json` is written last."""
    return Path(stage, "summary.json").is_file()
