"""From the sections of a recipe that belong to trl, peft and transformers to the libraries' own
configs: what the recipe sets, what we set where it does not, and what the libraries say against
it."""

import ast
import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import gcd
from pathlib import Path
from typing import Any, NamedTuple

from console.faults import REFUSALS, Fault, RecipeError, nearest
from machine import hardware
from schema import stages
from schema.sections import Recipe
from schema.values import Number, remote_trackers, rule_of

SECTIONS = {"adapter": "peft.LoraConfig", "quantization": "transformers.BitsAndBytesConfig"}
SECTIONS |= {name: each.config for name, each in stages.STAGES.items()}

# Keys of the lines that a run logs. trl's name for the share of held-out problems that are right:
ACCURACY = "eval_rewards/correct_answer/mean"
# Beside it a "1" or "0" for each problem, in the order of their texts:
RIGHT = "eval_right"
# The share of groups whose completions all earn the same:
WITHOUT_SIGNAL = "groups_without_signal"

SAVE_STEPS = 50  # or the next multiple of a cycle, where the recipe does not say
# Where GRPO's server is, which is no part of a run: its next start may find one elsewhere.
PLACE = ("vllm_server_host", "vllm_server_port", "vllm_server_timeout", "vllm_group_port")
PATTERNS = ("rank_pattern", "alpha_pattern")
OF_EXPERTS = r".*\."  # what peft writes before the name of experts in them
# held-out problems in a batch, for each completion of a training batch, where transformers answers
EVALUATED = 2


# What a config class declares is read from its source: importing it takes seconds, and a misspelt
# key is told at once. tests/schema/test_values.py holds every field against the class itself.


def _of_trl(config: str) -> tuple[str, str, str]:
    """`trl.trainer.SFTConfig` is in the file trainer/sft_config.py."""
    package, *folders, name = config.split(".")
    return package, "/".join([*folders, f"{name.removesuffix('Config').lower()}_config.py"]), name


CLASSES = {
    "adapter": ("peft", "tuners/lora/config.py", "LoraConfig"),
    "quantization": ("transformers", "utils/quantization_config.py", "BitsAndBytesConfig"),
    **{name: _of_trl(each.config) for name, each in (stages.STAGES | stages.ALGORITHMS).items()},
}
_INHERITED = (
    ("peft", "config.py", "PeftConfig"),
    ("peft", "config.py", "PeftConfigMixin"),
    ("trl", "trainer/base_config.py", "_BaseConfig"),
    ("transformers", "training_args.py", "TrainingArguments"),
)
_BY_NAME = {each[-1]: each for each in (*CLASSES.values(), *_INHERITED)}
UNKNOWN = object()  # a default that is worked out when the class is imported


class Field(NamedTuple):
    """`type`: as its class declares it. `default`: its value where a recipe does not set it."""

    type: str
    default: Any


def fields(section: str) -> dict[str, Field]:
    """Every field that a section of a recipe may set, by its name."""
    return fields_of(*CLASSES[section])


@cache
def fields_of(package: str, file: str, name: str) -> dict[str, Field]:
    """Every field of a class in a file of a package: its own, and those of the classes above that
    it inherits from."""
    folder = Path(find_spec(package).submodule_search_locations[0])
    tree = ast.parse((folder / file).read_text(encoding="utf-8"))
    node = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    declared = {}
    for base in reversed(node.bases):
        if isinstance(base, ast.Name) and base.id in _BY_NAME:
            declared |= fields_of(*_BY_NAME[base.id])
    return declared | dict(_declared(node.body))


def defaults(section: str) -> dict[str, Any]:
    """Name to default of every field whose default the source says."""
    known = fields(section).items()
    return {key: field.default for key, field in known if field.default is not UNKNOWN}


def _declared(body: list[ast.stmt]):
    for node in body:
        if isinstance(node, ast.AnnAssign):
            given = {"default": _literal(node.value)}
            if isinstance(node.value, ast.Call):
                given = {each.arg: _literal(each.value) for each in node.value.keywords}
            if given.get("init") is not False:  # its class sets such a field itself
                declared = ast.unparse(node.annotation)
                yield node.target.id, Field(declared, given.get("default", UNKNOWN))
        # A class that is no dataclass.
        elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
            names = [argument.arg for argument in node.args.args[1:]]
            for key, default in zip(names, map(_literal, node.args.defaults), strict=True):
                yield key, Field(type(default).__name__, default)


def _literal(value: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(value)
    except ValueError:
        return UNKNOWN


@cache
def section_class(section: str) -> type:
    return _class(SECTIONS[section])


def _class(path: str) -> type:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def complaint(recipe: Recipe, section: str) -> str | None:
    """What the library's own config says against the section, or None. It is said to the user, as a
    fault."""
    build = {"adapter": adapter_config, "quantization": quantization_config}
    try:
        if section in build:
            build[section](recipe)
        else:
            return _against_schedule(training_config(recipe, section))
    except (*REFUSALS, AttributeError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return None


def _against_schedule(config) -> str | None:
    """What transformers says against the schedule of the learning rate; or that the rate is never
    reached, as where the phases do not fit into the steps, or that it rises above itself."""
    import torch
    from transformers import get_scheduler

    key = "lr_scheduler_kwargs" if config.lr_scheduler_kwargs else "lr_scheduler_type"
    steps = config.max_steps if config.max_steps > 0 else 1000
    warmup = config.get_warmup_steps(steps)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=config.learning_rate)
    arguments = (config.lr_scheduler_type, optimizer, warmup, steps, config.lr_scheduler_kwargs)
    tried = {0, warmup, *range(0, steps, steps // 1000 + 1)}
    try:
        share = get_scheduler(*arguments).lr_lambdas[0]
        highest = max(share(step) for step in tried)
    except (TypeError, ValueError, ArithmeticError) as error:
        return f"{key}: {error}"
    if config.max_steps < 1 or 0.99 <= highest <= 1.01:
        return None
    rate = f"{highest * config.learning_rate:g}"
    return f"{key}: the rate reaches {rate}, not learning_rate, {config.learning_rate:g}"


def training_config(recipe: Recipe, section: str):
    """The config of a stage's trainer. That of another algorithm than GRPO gets what it has of
    GRPO's settings, and GRPO's defaults where its own differ: a key that is left out says the same
    under every algorithm.

    Raises:
        RecipeError: it was launched to be sharded, and here it would not be, or in float16.
    """
    arguments, kind = training_arguments(recipe, section), section_class(section)
    fsdp = os.environ.get("ACCELERATE_USE_FSDP") == "true"
    deepspeed = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"
    if arguments.get("fp16") and (fsdp or deepspeed):
        message = "float16 is not sharded here: take ACCELERATE=ddp"
        raise RecipeError([Fault(recipe.place("model", "dtype"), message)])
    if section == "grpo" and recipe.algorithm is not None:
        kind = _class(stages.algorithm(recipe.algorithm).config)
        taken = fields(recipe.algorithm)
        arguments = defaults("grpo") | arguments
        arguments = {key: value for key, value in arguments.items() if key in taken}
    config = kind(**arguments)
    if fsdp and config.distributed_state.distributed_type == "MULTI_CPU":
        message = "accelerate has FSDP for GPUs alone, and would silently train with DDP"
        raise RecipeError([f"{message}: ACCELERATE=cpu2"])
    return config


def training_arguments(recipe: Recipe, section: str) -> dict[str, Any]:
    """The arguments that differ from the library's defaults: what this machine decides, and what is
    chosen."""
    has_gpu = hardware.gpu() is not None
    launched_in = os.environ.get("ACCELERATE_MIXED_PRECISION")
    if launched_in == "bf16" and not hardware.has_arithmetic("bfloat16"):
        os.environ["ACCELERATE_MIXED_PRECISION"] = "no"  # or it would contradict our `bf16` below
    half = has_gpu and recipe.model.dtype == "float16"  # accelerate then scales the loss
    in_bfloat16 = has_gpu and not half and hardware.has_arithmetic("bfloat16")
    machine = {"use_cpu": not has_gpu, "bf16": in_bfloat16}
    if half:
        machine["fp16"] = True
    return machine | chosen(recipe, section)


def chosen(recipe: Recipe, section: str) -> dict[str, Any]:
    """What we set in a section, and what the recipe does, which wins."""
    return own_defaults(recipe, section) | with_floats(section, getattr(recipe, section) or {})


def with_floats(section: str, given: dict[str, Any]) -> dict[str, Any]:
    """The values with a float for every number that may be a fraction: once the weights are loaded,
    some libraries refuse a 2 where 2.0 is meant."""
    values = dict(given)
    for key, value in given.items():
        rule = rule_of(section, key, fields(section)[key].type)
        if isinstance(rule, Number) and not rule.whole and value is not None:
            values[key] = float(value)
    return values


def setting(recipe: Recipe, section: str, key: str) -> Any:
    """The value of a section's field, as its config is built with it: the recipe's, or else ours,
    or else the library's default. It imports no library; what the machine decides, and what a
    class computes from others, must be read off `training_config` instead."""
    return settings(recipe, section)[key]


def settings(recipe: Recipe, section: str) -> dict[str, Any]:
    """All of them, by name: see `setting`."""
    return defaults(section) | chosen(recipe, section)


def samples_from_server(recipe: Recipe) -> bool:
    """Whether GRPO's completions come from a vLLM server of its own."""
    return setting(recipe, "grpo", "use_vllm") and setting(recipe, "grpo", "vllm_mode") == "server"


def vllm_dtype(recipe: Recipe) -> str:
    """What vLLM computes in, on a server and in an evaluation: bfloat16 for float32 weights where
    training computes in it too (autocast), as vLLM does by itself in the trainer's process. Float32
    would be several times slower.
    """
    autocast = training_arguments(recipe, "grpo")["bf16"] and hardware.has_arithmetic("bfloat16")
    return "bfloat16" if autocast and recipe.model.dtype == "float32" else recipe.model.dtype


def without_place(resolved: dict) -> dict:
    """A resolved recipe as a run saves it: of another machine no file speaks that a run has
    written."""

    def stays(key: str, value: Any) -> bool:
        return key not in PLACE and not (key == "report_to" and remote_trackers(value))

    return {
        name: (
            {key: value for key, value in each.items() if stays(key, value)}
            if isinstance(each, dict)
            else each
        )
        for name, each in resolved.items()
    }


def shared_defaults(section: str) -> dict[str, Any]:
    """The fields that we set to the same in every run that does not say otherwise."""
    of_grpo = {
        # trl's default drops a completion when the product of its tokens' ratios exceeds 3. Over a
        # thousand tokens the rounding of the two engines alone gets there (trl issues 5815 and
        # 7269).
        "vllm_importance_sampling_mode": "token_truncate",
        # trl's 0.0.0.0 would be every address of the machine to a server.
        "vllm_server_host": "127.0.0.1",
    }
    return {
        "report_to": "none",
        "project": "grpo-recipes",  # the name under which a tracker shows the runs
        "save_steps": SAVE_STEPS,
        "save_total_limit": 2,
        "logging_steps": 25,
        # A NaN must be seen in the log, not replaced by the mean of the steps before it.
        "logging_nan_inf_filter": False,
        **(of_grpo if section == "grpo" else {}),
        **stages.STAGES[section].defaults,
    }


def own_defaults(recipe: Recipe, section: str) -> dict[str, Any]:
    """The fields that we set on every machine where the recipe does not."""
    folder = recipe.stage_dir(section)
    own = {"output_dir": str(folder), "seed": recipe.seed, "run_name": "/".join(folder.parts[-2:])}
    defaults = own | shared_defaults(section)
    if section == "grpo":
        whole = generation(recipe.grpo).whole
        defaults["save_steps"] = -(-SAVE_STEPS // whole) * whole
        defaults |= _validated_while_training(recipe.grpo, recipe.evaluate.checkpoint_problems)
        defaults["reward_weights"] = list(recipe.weights_of_completions.values())
    return defaults


class Generation(NamedTuple):
    """What trl samples at once, and how long it trains on that.

    `completions`: on all processes together. `steps`: the micro-batches they make. `cycle`: the
    micro-steps until it samples again. `whole`: a checkpoint after a multiple of so many optimizer
    steps falls on the end of a cycle.
    """

    completions: int
    steps: int
    cycle: int
    whole: int


def generation(grpo: dict, count: int | None = None) -> Generation:
    """Of a `grpo` section, on `count` processes, or else on as many as this one's launcher
    started."""
    values = defaults("grpo") | grpo
    accumulation = values["gradient_accumulation_steps"]
    batch = values["per_device_train_batch_size"] * (count or processes())
    completions, steps = values["generation_batch_size"], values["steps_per_generation"]
    if not steps:
        steps = max(1, completions // batch) if completions else accumulation
    cycle = steps * values["num_iterations"]
    return Generation(completions or batch * steps, steps, cycle, cycle // gcd(cycle, accumulation))


def size_of_run(recipe: Recipe) -> tuple[int, int, int] | None:
    """The steps of GRPO, and the completions and the tokens that all processes sample in them,
    every completion as long as it may be; None where the library counts the steps by epochs."""
    steps, accumulation, length = (
        setting(recipe, "grpo", key)
        for key in ("max_steps", "gradient_accumulation_steps", "max_completion_length")
    )
    sampled = generation(recipe.grpo)
    completions = -(-steps * accumulation // sampled.cycle) * sampled.completions
    return (steps, completions, completions * length) if steps > 0 else None


def processes() -> int:
    """How many processes the launcher started."""
    return int(os.environ.get("WORLD_SIZE", 1))


def even_batch(problems: int, at_most: int) -> int:
    """The largest batch of at most `at_most` problems that every process can fill, or 0. trl
    averages the batches' means, which gives the share of right answers only if all batches are
    full."""
    return next((size for size in range(at_most, 0, -1) if problems % (size * processes()) == 0), 0)


def _validated_while_training(grpo: dict, problems: int) -> dict[str, Any]:
    """What `grpo.eval_steps` asks of trl: one answer per problem, a checkpoint with every
    evaluation, and the best of them kept and loaded at the end."""
    values = defaults("grpo") | grpo
    if not values["eval_steps"]:
        return {}
    # All in one batch for vLLM, which is woken, given the weights and put to sleep again for each.
    at_most = problems if values["use_vllm"] else EVALUATED * values["per_device_train_batch_size"]
    return {
        "eval_strategy": "steps",
        "num_generations_eval": 1,
        "per_device_eval_batch_size": even_batch(problems, at_most),
        "save_steps": values["eval_steps"],
        "load_best_model_at_end": True,
        "metric_for_best_model": ACCURACY,
        "greater_is_better": True,
    }


def adapter_config(recipe: Recipe):
    """`LoraConfig` of a recipe, or None where all weights are trained."""
    if recipe.adapter is None:
        return None
    # With dropout, the policy being trained would differ from the one that sampled.
    values = with_floats("adapter", recipe.adapter)
    return section_class("adapter")(**{"task_type": "CAUSAL_LM", "lora_dropout": 0.0} | values)


def require_modules(recipe: Recipe, model):
    """Refuse an adapter that names modules or parameters which the model does not have: peft
    silently ignores them as long as it finds one.

    Raises:
        RecipeError: names the first such name, and the nearest that exists.
    """
    given, modules = recipe.adapter or {}, [name for name, _ in model.named_modules()]
    parameters = [name for name, _ in model.named_parameters()]
    kinds = {"target_parameters": ("parameter", parameters, 2)}
    kinds |= dict.fromkeys(PATTERNS, ("module", [*modules, *parameters], 1))
    for key in (
        "target_modules",
        "target_parameters",
        "exclude_modules",
        "modules_to_save",
        *PATTERNS,
    ):
        named = given.get(key) or []
        kind, there, parts = kinds.get(key, ("module", modules, 1))
        for each in [] if isinstance(named, str) else named:
            if not any(f".{name}".endswith(f".{each.removeprefix(OF_EXPERTS)}") for name in there):
                ends = sorted({".".join(name.split(".")[-parts:]) for name in there})
                message = f"adapter.{key}: the model has no {kind} {each}{nearest(each, ends)}"
                raise RecipeError([Fault(recipe.place("adapter", key), message)])
    layers = given.get("layers_to_transform")
    most = model.config.get_text_config().num_hidden_layers
    if layers is not None and max([layers] if isinstance(layers, int) else layers) >= most:
        message = (
            f"adapter.layers_to_transform: {layers} is too high: the model's layers are 0 to"
            f" {most - 1}"
        )
        raise RecipeError([Fault(recipe.place("adapter", "layers_to_transform"), message)])


def quantization_config(recipe: Recipe):
    """`BitsAndBytesConfig` of a recipe, or None."""
    values = with_floats("quantization", recipe.quantization or {})
    return section_class("quantization")(**values) if values else None
