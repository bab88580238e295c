"""How the keys of a recipe go together: the one list of rules for several keys.

A rule of level `error` is a fault of the recipe. One of level `warning` is valid and usually trains
badly: `make check` says so. What one key may be is in schema/values.py, and whether the names of
data sets and rewards exist in schema/names.py.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from console.faults import Complaints, Fault
from schema import conditions
from schema.configs import Values
from schema.names import ONE_TURN
from schema.settings import Recipe
from schema.stages import STAGES

REFUSE, WARN = "error", "warning"
ONE_OF_BOTH = "set exactly one of `name_or_path` (a Hub id or a folder) and `build` (made here)"
NOT_TRIED = "it has not been tried: leave one of them out"
NOT_BY_VLLM = "only transformers samples, vLLM has not been tried: leave one of them out"
NO_TEACHER = "it learns from a model, and none is named: add `teacher`, a folder or a Hub id"
NO_TRAINING = "float16 weights cannot be trained, only an adapter beside them"


class Rule(NamedTuple):
    """One row of RULES.

    Attributes:
        key: the key to change, as `section.key`. The rule is for recipes that have the section.
        when: whether the values break the rule; or what the message says of it, by name.
        message: what to do, after the key's name. `{grpo.delta}` stands for a value.
        level: REFUSE or WARN.
    """

    key: str
    when: Callable[[Values], Any]
    message: str
    level: str = REFUSE


def broken(recipe: Mapping[str, Any], level: str = REFUSE, processes: int = 1) -> Complaints:
    """Yield the keys and the message of each rule of this level that a recipe breaks. Its sections
    are mappings, without the keys that are faulty by themselves. `processes`: how many share each
    step."""
    values = Values(recipe, processes)
    for rule in RULES:
        section = rule.key.partition(".")[0]
        if rule.level != level or section not in recipe:
            continue
        facts = rule.when(values)
        if facts:
            words = vars(values) | (facts if isinstance(facts, dict) else {})
            yield tuple(rule.key.format(**words).split(".")), rule.message.format(**words)


def warnings_of(recipe: Recipe) -> Iterator[Fault]:
    """Yield a warning for each rule whose recipe is valid and usually trains badly."""
    for keys, message in broken(recipe.sections(), WARN):
        yield recipe.fault(WARN, keys, message)


def tolerance_of(recipe: Recipe) -> str:
    """Which numbers a recipe with a tolerance counts as correct."""
    return f"tolerance: a number is correct within {recipe.tolerance:.3g} times its gold"


CLIPPED = ("grpo", "dr_grpo", "dapo", "bnpo", "luspo")
# Settings that trl reads only beside some values of another setting (trl/trainer/grpo_trainer.py).
READ_FOR = {
    "delta": ("loss_type", CLIPPED),
    "sapo_temperature_neg": ("loss_type", ("sapo",)),
    "sapo_temperature_pos": ("loss_type", ("sapo",)),
    "entropy_target": ("use_adaptive_entropy", ("True",)),
    "scale_rewards": ("multi_objective_aggregation", ("sum_then_normalize",)),
}
# Where sampling makes the completions of a problem alike.
ALIKE = {"top_k": (1, 1), "top_p": (0, 0.1), "min_p": (0.9, 1), "temperature": (0, 0.299)}
# Above and below these bounds a run is valid, and nobody has reported that it learned.
LOWEST_RATE, HIGHEST_RATE = 1e-7, 1e-2
HIGHEST = {
    "temperature": (1.5, "samples words at random: leave it out, which is 1"),
    "num_iterations": (
        8,
        "updates on the same completions take the policy far from what sampled them, where the clip"
        " stops it: take 1 to 4",
    ),
    "beta": (1, "holds the policy at its reference: take 0, or 0.001 to 0.1"),
}

MODEL = [
    Rule(
        "model",
        lambda values: values.model.name_or_path is None and values.model.build is None,
        ONE_OF_BOTH,
    ),
    Rule(
        "model",
        lambda values: values.model.name_or_path is not None and values.model.build is not None,
        f"{ONE_OF_BOTH}; `build: null`, or `name_or_path: null`, takes away a base's",
    ),
    Rule("model.name_or_path", conditions.no_such_model, "{reason}"),
    Rule(
        "model.build",
        conditions.begins_at_random,
        "{model.build} begins with random weights, and without an `sft` section nothing teaches it"
        " to answer: GRPO would find no correct completion to reward. Add worked solutions and"
        " `sft`, or begin with a pretrained model (base: smollm2-arithmetic.yaml, after"
        " `make smollm2`)",
        WARN,
    ),
    Rule(
        "model.dtype",
        lambda values: values.model.dtype == "float16" and "adapter" not in values.sections,
        f"{NO_TRAINING}: add an `adapter` section, or take float32",
    ),
    Rule(
        "model.dtype",
        lambda values: values.model.dtype == "float16" and values.adapter.modules_to_save,
        f"{NO_TRAINING}: leave adapter.modules_to_save out, or take float32",
    ),
    *[
        Rule(
            f"adapter.{key}",
            lambda values, key=key: (
                values.adapter.target_parameters and getattr(values.adapter, key)
            ),
            "peft has none for adapter.target_parameters: leave it out",
        )
        for key in ("lora_dropout", "lora_bias", "use_dora")
    ],
    Rule(
        "adapter.target_parameters",
        lambda values: values.adapter.target_parameters and conditions.uses_vllm(values),
        "vLLM has not been tried with them: set grpo.use_vllm: false and"
        " evaluate.engine: transformers",
    ),
    Rule(
        "quantization",
        lambda values: "adapter" not in values.sections,
        "quantised weights cannot be trained; add an `adapter` section",
    ),
    Rule(
        "quantization",
        lambda values: values.quantization.load_in_4bit == values.quantization.load_in_8bit,
        "set exactly one of load_in_4bit and load_in_8bit to true",
    ),
]
DATA = [
    Rule(
        "data.dir",
        lambda values: values.data.dir and not Path(values.data.dir).is_dir(),
        "{data.dir} is not a folder",
    ),
    Rule(
        "data.rejection_sampling",
        lambda values: values.data.rejection_sampling is not None and "sft" not in values.sections,
        "they are for a warm start, and this recipe has no `sft` section: add one",
    ),
    Rule(
        "data.rejection_sampling",
        lambda values: values.data.rejection_sampling is not None and values.tools,
        ONE_TURN,
    ),
    Rule(
        "data.worked",
        lambda values: None not in (values.data.rejection_sampling, values.data.worked),
        "it counts the data's worked solutions, which data.rejection_sampling replaces: keep one of"
        " them",
    ),
    Rule(
        "data.dynamic_sampling",
        lambda values: values.data.dynamic_sampling and values.tools,
        f"with `tools` {NOT_TRIED}",
    ),
    Rule(
        "data.dynamic_sampling",
        lambda values: values.data.dynamic_sampling and conditions.rewards_steps(values),
        f"with a reward of `steps` {NOT_TRIED}",
    ),
    Rule(
        "data.dynamic_sampling",
        lambda values: (
            values.data.dynamic_sampling
            and (
                values.grpo.scale_rewards == "batch"
                or values.grpo.multi_objective_aggregation == "normalize_then_sum"
            )
        ),
        "each round would be scaled by a batch of its own: take grpo.scale_rewards: group, and"
        " grpo.multi_objective_aggregation: sum_then_normalize",
    ),
    Rule(
        "data.dynamic_sampling",
        lambda values: values.data.dynamic_sampling and values.processes > 1,
        "one process replaces groups, and {processes} would share a batch: take PROCESSES=1, or"
        " leave it out",
    ),
    Rule(
        "data.validation",
        conditions.few_to_compare,
        "{comparing} problems are left to compare the stages{explanation}, too few to show a gain"
        " of less than {points} points: raise it",
        WARN,
    ),
]
EVALUATE = [
    Rule(
        "evaluate.benchmarks",
        conditions.repeated_benchmarks,
        "named {labels}; their results would mix: leave one out, or rename its file",
    ),
    Rule(
        "evaluate.benchmarks",
        conditions.files_trained_on,
        "{files} is what data.train learns from; data.validation is already held out of it: leave"
        " it out (evaluate.benchmarks: [] for none)",
    ),
    Rule(
        "evaluate.benchmarks",
        conditions.taken_label,
        "one is called {label}, and eval/{label} holds other completions: rename its file",
    ),
    Rule(
        "evaluate.samples",
        lambda values: values.evaluate.samples > 1 and not values.evaluate.temperature,
        "{evaluate.samples} greedy answers to a problem would all be the same; set"
        " evaluate.temperature",
    ),
    Rule(
        "evaluate.engine",
        lambda values: values.evaluate.engine == "vllm" and conditions.is_quantised(values),
        "vllm would serve the adapter on unquantised weights, on which it was not trained: set it"
        " to transformers",
    ),
    Rule(
        "evaluate.engine",
        lambda values: values.evaluate.engine == "vllm" and values.tools,
        f"with `tools` {NOT_BY_VLLM}",
    ),
    Rule(
        "evaluate.top_p",
        conditions.never_reads_top_p,
        "greedy answers do not read it: set evaluate.temperature, or leave it out",
        WARN,
    ),
]
REWARDS = [
    Rule("rewards", lambda values: not values.rewards, "name at least one reward"),
    Rule(
        "rewards.{reward}",
        conditions.punishes_truth,
        "a weight of {weight:g} punishes correct answers: write weight: {positive:g}",
    ),
    Rule("rewards", conditions.pays_nothing, "all weights are 0, so nothing would be learned"),
    Rule(
        "rewards",
        conditions.pays_more_for_form,
        "format is paid {format:g} and a correct answer {truth:g}: the policy learns what pays"
        " more; give format a quarter of the answer's weight",
        WARN,
    ),
    Rule(
        "rewards",
        conditions.needs_tags_and_teaches_none,
        "without a warm start a model seldom writes the tags, and no reward here pays without them:"
        " add an sft section, or `tag_count`, or leave `strict` out",
        WARN,
    ),
]
VLLM = [
    Rule(
        "grpo.use_vllm",
        lambda values: values.grpo.use_vllm and values.model.revision,
        "trl has vLLM load the newest revision of the model, not model.revision; download that one"
        " (`hf download … --revision … --local-dir folder`) and name the folder",
    ),
    Rule(
        "grpo.use_vllm",
        lambda values: values.grpo.use_vllm and conditions.is_quantised(values),
        "vLLM cannot take the quantised weights that trl would send it: set it to false, or remove"
        " the section `quantization`",
    ),
    Rule(
        "grpo.use_vllm",
        lambda values: values.grpo.use_vllm and values.tools,
        f"with `tools` {NOT_BY_VLLM}",
    ),
    Rule(
        "grpo.generation_kwargs",
        lambda values: not values.grpo.use_vllm and conditions.unread_options(values),
        "{unread} is an option of vLLM, but transformers samples here",
    ),
    Rule(
        "grpo.generation_kwargs",
        lambda values: values.grpo.use_vllm and conditions.unread_options(values),
        "{unread} is an option of transformers, but vLLM samples here",
    ),
]
TOOLS = [
    Rule(
        "grpo.max_tool_calling_iterations",
        lambda values: "grpo.max_tool_calling_iterations" in values.keys and not values.tools,
        "only `tools` reads it; leave it out",
    ),
    # trl looks at the last token of a completion. There it finds the end of the turn that called a
    # tool.
    Rule(
        "grpo.mask_truncated_completions",
        lambda values: values.grpo.mask_truncated_completions and values.tools,
        "with `tools` trl takes a completion whose last call found no room for a whole one; leave"
        " it out",
    ),
]
DISTILL = [
    Rule("distill", lambda values: values.teacher is None, NO_TEACHER),
    Rule("distill", lambda values: values.tools, f"with `tools` {NOT_TRIED}"),
]
VALIDATION = [
    Rule(
        "grpo.eval_steps",
        lambda values: (
            values.grpo.eval_steps
            and values.evaluate.checkpoint_problems != 0
            and values.rewards
            and "correct_answer" not in values.rewards
        ),
        "validation accuracy is the mean of the reward `correct_answer`, which this recipe lacks;"
        " add it, with weight 0 if it should not be paid",
    ),
    Rule(
        "grpo.eval_steps",
        lambda values: (
            values.grpo.eval_steps and (values.evaluate.checkpoint_problems or 0) % values.processes
        ),
        "{processes} processes cannot share evaluate.checkpoint_problems ="
        " {evaluate.checkpoint_problems} problems evenly; take a multiple of {processes}",
    ),
    Rule(
        "evaluate.checkpoint_problems",
        conditions.none_left_to_compare,
        "{evaluate.checkpoint_problems} problems choose the checkpoint, and none of the"
        " data.validation = {data.validation} is left to compare the stages: {advice}",
    ),
]
BATCH = [
    Rule(
        "grpo.num_generations",
        conditions.broken_groups,
        "groups of {grpo.num_generations} do not fill a generation batch of {sampled.completions}"
        " completions ({grpo.per_device_train_batch_size} per_device_train_batch_size ×"
        " {sampled.steps} steps); {advice}change the batch",
    ),
    Rule(
        "grpo.gradient_accumulation_steps",
        conditions.broken_cycle,
        "{grpo.gradient_accumulation_steps} neither divides a generation cycle of"
        " {sampled.cycle}"
        " micro-steps (steps_per_generation × num_iterations) nor is a multiple of it, and a run"
        " resumed inside a cycle would differ; take {smaller} or {larger}",
    ),
    Rule(
        "grpo.{saving}",
        conditions.saves_inside_a_cycle,
        "a checkpoint after {every} steps falls inside a generation cycle of {sampled.cycle}"
        " micro-steps, and a run resumed there would differ; take a multiple of"
        " {sampled.aligned_steps}",
    ),
    Rule(
        "grpo.{saving}",
        conditions.saves_without_evaluation,
        "a checkpoint after {every} steps would have no evaluation, and the best by evaluation is"
        " kept (grpo.eval_steps = {grpo.eval_steps}); take a multiple of {multiple}",
    ),
    Rule(
        "grpo.num_generations",
        lambda values: values.grpo.num_generations < 4,
        "in a group of {grpo.num_generations} the mean says little, and most groups are all correct"
        " or all incorrect; take 8 or more",
        WARN,
    ),
]
for stage in STAGES:
    BATCH += [
        Rule(
            f"{stage}.per_device_train_batch_size",
            conditions.uneven_share(stage),
            "{processes} processes cannot share a step of"
            f" {{{stage}.per_device_train_batch_size}} × {{{stage}.gradient_accumulation_steps}}"
            " (gradient_accumulation_steps) evenly: take PROCESSES={counts}, or change the batch",
        ),
        Rule(
            f"{stage}.warmup_steps",
            conditions.only_warms_up(stage),
            f"all {{{stage}.max_steps}} steps would be warm-up; take fewer than that",
        ),
        Rule(
            f"{stage}.num_train_epochs",
            conditions.counts_no_epochs(stage),
            f"it has no effect beside max_steps = {{{stage}.max_steps}}: leave it out, or write"
            " max_steps: -1",
        ),
        Rule(
            f"{stage}.save_steps",
            conditions.saves_only_at_the_end(stage),
            f"{{{stage}.save_steps}} is beyond the {{{stage}.max_steps}} steps of the run, and one"
            " that is killed begins anew: leave it out, or take less",
            WARN,
        ),
        Rule(
            f"{stage}.learning_rate",
            conditions.rate_beyond(stage, LOWEST_RATE, HIGHEST_RATE),
            "{rate:g} {reason}: usual rates are 1e-6 for all weights, 1e-5 to 1e-4 for an adapter",
            WARN,
        ),
    ]
LOSSES = [
    Rule(
        "grpo.epsilon_high",
        lambda values: values.grpo.loss_type == "cispo" and (values.grpo.epsilon_high or 0) < 1,
        "cispo caps each token's weight there; set it, to 1 or more (ScaleRL uses 5)",
    ),
    Rule(
        "grpo.delta",
        conditions.clips_nothing,
        "{grpo.delta} must be above 1 + {clip}, the upper clip, to have an effect",
    ),
]
for key, (setting, readers) in READ_FOR.items():
    LOSSES.append(
        Rule(
            f"grpo.{key}",
            conditions.unread_beside(key, setting, readers),
            f"only grpo.{setting}: {' or '.join(readers).lower()} reads it; set that, or leave it"
            " out",
        )
    )
POLICY = [
    Rule(
        "grpo.learning_rate",
        lambda values: (
            "adapter" in values.sections and LOWEST_RATE <= values.grpo.learning_rate < 4e-6
        ),
        "{grpo.learning_rate:g} is a learning rate for full fine-tuning; an adapter wants ten times"
        " that or more: try 1e-5",
        WARN,
    ),
    Rule(
        "model.dtype",
        lambda values: values.model.dtype == "float16",
        "float16 overflows above 65,504, and such a step is skipped: take it on a GPU without"
        " bfloat16",
        WARN,
    ),
]
for key, (low, high) in ALIKE.items():
    POLICY.append(
        Rule(
            f"grpo.{key}",
            conditions.lies_between(key, low, high),
            f"{{grpo.{key}:g}} makes a problem's completions alike, which teaches nothing: leave it"
            " out",
            WARN,
        )
    )
for key, (highest, reason) in HIGHEST.items():
    POLICY.append(
        Rule(f"grpo.{key}", conditions.lies_above(key, highest), f"{{grpo.{key}:g}} {reason}", WARN)
    )

RULES = [*MODEL, *DATA, *REWARDS, *BATCH, *VLLM, *TOOLS, *DISTILL, *VALIDATION, *LOSSES]
RULES += [*EVALUATE, *POLICY]
