"""The sections of a recipe that are ours, with their defaults."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

# Problems, at most, that are held out and that choose the checkpoint where a recipe does not say.
VALIDATION = 500
CHOOSING = 192


@dataclass(frozen=True)
class Model:
    """Which weights.

    `name_or_path`: a Hub id or a folder. Example: `Qwen/Qwen2.5-Math-1.5B`
    `build`: instead of it, a builder of `training/tiny_models.py`, which needs no download.
    Example: `smollm2-135m-instruct`
    `revision`: the branch, tag or commit of a Hub id. Example: `main`
    `dtype`: what the weights are kept in.
    `attn_implementation`: how attention is computed; by default transformers chooses. Example:
    `sdpa`
    `chat_template`: a Jinja template in place of the tokenizer's. Example: `"{{
    messages[0].content }}"`
    `chat_template_kwargs`: what the template takes besides. Example: `{enable_thinking: false}`
    """

    name_or_path: str | None = None
    build: str | None = None
    revision: str | None = None
    dtype: str = "float32"
    attn_implementation: str | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, bool | int | float | str] | None = None


@dataclass(frozen=True)
class RejectionSampling:
    """The base is sampled, and the warm start learns from its correct completions.

    `problems`: of how many training problems.
    `samples`: completions of each.
    `keep`: how many correct ones of a problem are kept, at most.
    `temperature`: 1 is the model's own distribution.
    `model`: the folder of a finished stage that is sampled instead of the base. Example:
    `outputs/tiny-arithmetic/sft`
    """

    problems: int = 2000
    samples: int = 4
    keep: int = 2
    temperature: float = 1.0
    model: str | None = None


@dataclass(frozen=True)
class Data:
    """Which problems.

    `train`: names of data sets, or one-entry mappings from a name to its arguments. Example:
    `[gsm8k, math]`
    `validation`: how many of their problems are held out; a fifth by default, at most 500. Example:
    `200`
    `worked`: how many worked solutions the warm start may see; all of them by default. Example:
    `300`
    `dir`: a folder of parquet files to read instead of the Hub. Example: `my/parquet`
    `pass_rate`: the lowest and the highest pass rate of a problem that GRPO trains on, as `make
    probe` measured it. Example: `[0.1, 0.9]`
    `dynamic_sampling`: how often the zero-variance groups of a GRPO batch are replaced by groups of
    other problems; none are by default. Example: `2`
    `rejection_sampling`: the warm start learns from the base's own correct completions.
    Example: `{samples: 8}`
    """

    train: list
    validation: int | None = None
    worked: int | None = None
    dir: str | None = None
    pass_rate: list | None = None
    dynamic_sampling: int | None = None
    rejection_sampling: RejectionSampling | None = None

    def __post_init__(self):
        if isinstance(self.rejection_sampling, dict):  # as a recipe has it, without the defaults
            object.__setattr__(
                self, "rejection_sampling", RejectionSampling(**self.rejection_sampling)
            )


@dataclass(frozen=True)
class Prompt:
    """What a problem is asked with.

    `system`: the system prompt that stands before every problem, in training and in evaluation.
    Example: `Reason step by step.`
    """

    system: str | None = None


@dataclass(frozen=True)
class Sampling:
    """How problems are answered: `samples` times each, at `temperature`, each token one of the
    likeliest that together have the probability `top_p`; only the first `limit` of them. `more`:
    the engine's own options besides.
    """

    samples: int = 1
    temperature: float = 0.0
    top_p: float = 1.0
    limit: int | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings on which an answer depends. `limit` is not among them: it changes no
        answer."""
        return {
            "samples": self.samples,
            "temperature": self.temperature,
            "top_p": self.top_p,
            **self.more,
        }


@dataclass(frozen=True)
class Evaluate:
    """How the stages are compared, and which checkpoint is kept.

    `benchmarks`: named as in `data.train`; each may have a `limit`, `samples`, `temperature` and
    `top_p` of its own, in place of those below. Example: `[gsm8k, aime-2024: {samples: 64,
    temperature: 0.6}]`
    `limit`: only the first so many problems of each. Example: `200`
    `engine`: what answers.
    `batch_size`: problems that transformers answers at once.
    `max_new_tokens`: of an answer; by default as long as a completion in training. Example: `2048`
    `samples`: answers per problem.
    `temperature`: of these answers; 0 is greedy.
    `top_p`: of sampled answers: only the likeliest tokens that have this share of the probability.
    `control`: whether the base is also evaluated with a worked example in its prompt.
    `checkpoint_problems`: how many validation problems choose the checkpoint, where
    `grpo.eval_steps` is set; the others compare. Half by default, at most 192; 0 keeps the last.
    Example: `64`
    `patience`: training stops when the accuracy that chooses the checkpoint has been clearly below
    its best for so many evaluations while reward rises; 0 is never.
    """

    benchmarks: list = field(default_factory=list)
    limit: int | None = Sampling.limit
    engine: str = "transformers"
    batch_size: int = 32
    max_new_tokens: int | None = None
    samples: int = Sampling.samples
    temperature: float = Sampling.temperature
    top_p: float = Sampling.top_p
    control: bool = True
    # 3.6 points of standard error; whole batches on 1 to 4, 6, 8, 12 … processes
    checkpoint_problems: int | None = None
    patience: int = 3

    def sampling(self, **settings) -> Sampling:
        """How the problems of a benchmark with these settings are answered."""
        defaults = {key: getattr(self, key) for key in SAMPLED}
        sampling = Sampling(**defaults | settings)
        if sampling.temperature:
            return sampling
        return replace(sampling, top_p=Sampling.top_p)  # greedy answers do not read top_p


SAMPLED = tuple(setting.name for setting in fields(Sampling) if setting.name != "more")


OWN_SECTIONS = {"model": Model, "data": Data, "prompt": Prompt, "evaluate": Evaluate}
