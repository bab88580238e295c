"""The table of stages that train, and that of the algorithms by which GRPO's does. Who lists stages
reads it here. What the keys of a section may be is in schema/values.py and
schema/refused_keys.py."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data.json_files import read_object


@dataclass(frozen=True)
class Stage:
    """`name`: of its target, its section, its folder, and its answers in a table. `config`: trl's
    class. `depends_on`: the keys of the recipe that its result depends on. The evaluation is not
    among them: more benchmarks do not make it another run, unless they remove other problems from
    the training set, which data.json shows. `made`: what made its model, in a card. `warm_start`:
    it begins with the warm start, where the recipe has one, and its target first runs what it
    needs. `learns_from`: the stage whose finished run it learns from. `samples`: its trainer
    samples completions. `defaults`: fields that we set where the recipe does not.
    """

    name: str
    config: str
    depends_on: tuple[str, ...]
    made: str
    warm_start: bool = False
    learns_from: str | None = None
    samples: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)


_SFT = ("seed", "model", "adapter", "quantization", "data", "prompt", "tools", "sft")
_GRPO = (*_SFT, "rewards", "grpo", "algorithm")
_STAGES = (
    Stage(
        "sft",
        "trl.trainer.SFTConfig",
        _SFT,
        made="an SFT warm start",
        defaults={
            "completion_only_loss": True
        },  # our tokenised rows carry the mask of the completion
    ),
    Stage(
        "grpo",
        "trl.trainer.GRPOConfig",
        _GRPO,
        made="GRPO",
        warm_start=True,
        samples=True,
        # Completions are written to the run's folder, as parquet.
        defaults={"logging_steps": 5, "log_completions": True, "num_completions_to_print": 0},
    ),
    Stage(
        "dpo",
        "trl.trainer.DPOConfig",
        (*_GRPO, "dpo"),
        made="DPO on pairs from a GRPO run",
        warm_start=True,
        learns_from="grpo",
    ),
)
STAGES = {each.name: each for each in _STAGES}
CHAINS = tuple(each.name for each in _STAGES if each.warm_start)  # targets that run several stages


@dataclass(frozen=True)
class Algorithm:
    """What trains in the stage `grpo`, by the trainer of its name in training/trainer.py.

    Attributes:
        made: its name in a card.
        config: trl's class.
        shown: what the page shows of settings that GRPO has and this has not.
    """

    name: str
    made: str
    config: str
    shown: dict[str, Any] = field(default_factory=dict)


_ALGORITHMS = (
    Algorithm("grpo", "GRPO", "trl.trainer.GRPOConfig"),
    Algorithm(
        "rloo",
        "RLOO",
        "trl.trainer.RLOOConfig",
        {
            "loss_type": "rloo",
            "scale_rewards": "none",
        },  # its advantages are not divided by a deviation
    ),
)
ALGORITHMS = {each.name: each for each in _ALGORITHMS}


def algorithm(named: object) -> Algorithm:
    """By what a recipe's key `algorithm` holds: GRPO where that is nothing, or nothing that is
    known."""
    return ALGORITHMS.get(str(named), ALGORITHMS["grpo"])


def chain() -> str | None:
    """The target for which `make` runs this stage as one of several, and goes on with the next by
    itself; None where it runs this stage alone."""
    target = os.environ.get("MAKE_TARGET")
    return target if target in CHAINS else None


def finished(stage: Path | str) -> bool:
    """Whether a stage that trains has ended in this folder: its `summary.json`, written last, has
    something in it."""
    return bool(read_object(Path(stage, "summary.json")))
