"""What a recipe's model config, tokenizer and data reveal without a weight: prompt, lengths, golds,
reward hacks, memory."""

import math
import re
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path

import psutil
import torch

from console.faults import Fault, RecipeError
from console.terminal import make_command, say
from data import prompt
from evaluation.audit import abbreviated, of_rewards
from evaluation.golds import say_examples, some_golds
from evaluation.sample import announcement, rows_by_pass_rate
from machine.hardware import GPU
from runs.identity import not_probed
from runs.state import bytes_of, checkpoints_of, most_checkpoints
from schema.names import is_reward_model
from schema.recipe import Recipe
from schema.settings import size_of_run
from schema.stages import finished
from training import memory
from training.model import checked, load_tokenizer, require_reward_model
from training.problem_sets import load_train, longest_prompt, prompt_lengths

# Numbers of parameters: below SMALL, full training uses the learning rates of a small network;
# above LARGE, no CPU trains a recipe in days.
SMALL = 50_000_000
LARGE = 1_000_000_000
# How long GRPO would take on a GPU.
STEP_SECONDS = (
    5  # seconds of a step that a GPU's speed leaves out: vLLM wakes, takes weights, sleeps
)
# The mean length of a completion, for a second estimate: between the 219 tokens of GSM8K in verl's
# log of the Qwen recipes' settings and the 500 or so of MATH.
USUAL_TOKENS = 350
OTHER_HOURS = 0.2  # hours of loading, the warm start and the evaluations
WITHOUT_VLLM = 2  # times as long
HTML = re.compile(
    r"</?(?:p|br|div|span|b|i|em|strong|su[bp]|[uo]l|li|table|td|tr)\b[^<>]*>"
    r"|&(?:amp|lt|gt|nbsp|quot|#\d{1,6});"
)
FORMS = 100  # problems whose shortest completion in the form is measured
OFTEN = 100  # times that a problem may be asked


def of_model(recipe: Recipe, rows: list[dict], launched: dict, gpu: GPU | None) -> Iterator[Fault]:
    """What the model's config, its tokenizer and the training rows reveal. A part that cannot be
    reached becomes a hint.

    Args:
        launched: the launcher's settings, such as the number of processes.
        gpu: the GPU to check for; None for this machine's.
    """
    config, tokenizer, faults = _config_and_tokenizer(recipe)
    yield from faults
    yield from _reward_model_findings(recipe)
    lengths = []
    if tokenizer and rows:
        _say_prompt(recipe, tokenizer, rows[0])
        lengths = prompt_lengths(rows, tokenizer, recipe.prompt.system)
        _say_lengths(lengths)
        yield from _template_findings(recipe, tokenizer)
        most_turns = max(rows, key=lambda row: len(row.get(prompt.TURNS) or []))
        yield from _prompt_findings(recipe, tokenizer, most_turns)
        yield from _unknown_letters(recipe, tokenizer, rows)
        yield from _form_findings(recipe, tokenizer, rows)
        yield from _probe_findings(recipe, tokenizer)
    if rows:
        yield from _repetition_findings(recipe, rows)
        yield from _gold_findings(recipe, rows)
    if config is not None:
        try:
            yield from _window_findings(recipe, config, lengths or [memory.PROMPT_TOKENS])
            room = longest_prompt(recipe, config)
            fitting = [length for length in lengths if length <= room]
            longest = max(fitting, default=memory.PROMPT_TOKENS)
            yield from _parameter_findings(recipe, config, gpu)
            usual = memory.PROMPT_TOKENS
            if lengths:
                usual = lengths[int(0.99 * len(lengths))]
            yield from _memory_findings(recipe, (longest, usual), launched, gpu)
            yield from _disk_findings(recipe, config, gpu)
        except RecipeError as error:
            # The model cannot be made of its config, or not with this adapter.
            for fault in error.faults:
                yield Fault(fault.place or recipe.place("model"), fault.message)


def _config_and_tokenizer(recipe: Recipe) -> tuple:
    """(config, tokenizer, faults); config and tokenizer are None where they cannot be read."""
    config = None
    tokenizer = None
    faults = []
    try:
        config = memory.model_config(recipe)
        tokenizer = load_tokenizer(recipe)
        if recipe.model.name_or_path and Path(recipe.model.name_or_path).is_dir():
            checked(recipe.model.name_or_path, None)  # with its weights
    except RecipeError as error:
        subject = "the model, and so prompt, lengths and memory"
        faults += recipe.faults_of(error, ("model",), subject)
    return config, tokenizer, faults


def _reward_model_findings(recipe: Recipe) -> Iterator[Fault]:
    """Whether trl could ask the reward models, of which no weight is loaded."""
    for name in filter(is_reward_model, recipe.rewards):
        try:
            require_reward_model(recipe, name, weights=Path(name).is_dir())
        except RecipeError as error:
            yield from recipe.faults_of(error, ("rewards", name), "the reward model")


def _say_lengths(lengths: list[int]):
    """Say how many tokens the prompts have, from their sorted lengths."""
    median = statistics.median(lengths)
    percentile_99 = lengths[int(0.99 * len(lengths))]
    say(
        f"prompts: median {median:.0f} tokens, 99% within {percentile_99}, longest {lengths[-1]}"
        f" (of {len(lengths)})"
    )


def _template_findings(recipe: Recipe, tokenizer) -> Iterator[Fault]:
    """What the chat template does that harms training."""
    if prompt.end_of_turn(tokenizer) is None:
        message = "the chat template ends no turn with a special token; eos ends an answer"
        yield recipe.fault("hint", ("model",), message)
    if prompt.tells_the_day(tokenizer):
        message = (
            "the chat template writes today's date, so a run that goes on, or is judged, on another"
            " day has other prompts: set it in model.chat_template_kwargs (Llama's: {date_string:"
            " 26 Jul 2024}), or a model.chat_template without it"
        )
        yield recipe.fault("warning", ("model",), message)


def _prompt_findings(recipe: Recipe, tokenizer, row: dict) -> Iterator[Fault]:
    """What a prompt lacks, or has that a model was not trained with."""
    conversation = prompt.messages(row, recipe.prompt.system)
    ids = list(prompt.prompt_ids(tokenizer, conversation))
    begin = tokenizer.bos_token_id
    messages = []
    if begin is not None and ids[:2] == [begin, begin]:
        messages.append(f"writes {tokenizer.bos_token} twice at the start of a prompt")
    if prompt.begins_with_bos(tokenizer) and ids[0] != begin:
        messages.append(f"begins no prompt with {tokenizer.bos_token}, as the tokenizer does")
    if prompt.writes_no_header(tokenizer):
        messages.append("writes no header of the assistant's turn (add_generation_prompt)")
    unknown = tokenizer.unk_token_id
    header = prompt.question_ids(tokenizer, "", recipe.prompt.system)
    if unknown not in (None, begin, tokenizer.eos_token_id) and unknown in header:
        messages.append(f"writes what the tokenizer has no token for, {tokenizer.unk_token}")
    text = tokenizer.apply_chat_template(conversation, tokenize=False)
    if re.search(r"\{(problem|question|query|prompt|input)\}", recipe.prompt.system or ""):
        message = "it is written as it stands, before the problem: nothing takes its braces' place"
        yield recipe.fault("warning", ("prompt", "system"), f"prompt.system: {message}")
    if not all(turn["content"].strip() in text for turn in conversation):
        messages.append("leaves out a turn before the problem, or a part of one")
    for message in messages:
        advice = "the model may never have seen that: set model.chat_template"
        yield recipe.fault("warning", ("model",), f"the chat template {message}; {advice}")


def _unknown_letters(recipe: Recipe, tokenizer, rows: list[dict]) -> Iterator[Fault]:
    """Whether the data has letters that the tokenizer has no token for, special tokens, or HTML."""
    for token in tokenizer.all_special_tokens:
        count = sum(token in row["problem"] for row in rows)
        if count:
            message = f"{count:,} problems hold {token}, a special token: take it out of the data"
            yield recipe.fault("warning", ("data", "train"), message)
    marked = [row["problem"] for row in rows if HTML.search(row["problem"])]
    if marked:
        message = (
            f"{len(marked):,} problems hold HTML, as {marked[0][:40]!r}: the model reads it as it"
            " stands: take it out"
        )
        yield recipe.fault("warning", ("data", "train"), message)
    if tokenizer.unk_token_id is None:
        return
    texts = [str(row[key] or "") for row in rows for key in ("problem", "solution", "reasoning")]
    letters = sorted(set().union(*texts, recipe.prompt.system or ""))
    ids = tokenizer(letters, add_special_tokens=False).input_ids
    pairs = zip(letters, ids, strict=True)
    unknown = [repr(letter) for letter, tokens in pairs if tokenizer.unk_token_id in tokens]
    if unknown:
        message = (
            f"the tokenizer has no {abbreviated(unknown)}: the model reads {tokenizer.unk_token}"
            " there, and cannot write it: replace it in the data, or take another model"
        )
        yield recipe.fault("warning", ("data", "train"), message)


def _form_findings(recipe: Recipe, tokenizer, rows: list[dict]) -> Iterator[Fault]:
    """Whether the form that is paid for, or most worked solutions, fit a completion."""
    longest = recipe.settings["grpo"]["max_completion_length"]
    needs_form = recipe.strict or "format_tags" in recipe.rewards
    sample = rows[:FORMS]
    empty = []
    worked = []
    for row in sample:
        texts = [prompt.completion("", row["solution"], opened=False)]
        if row.get("reasoning"):
            texts.append(prompt.completion(row["reasoning"], row["solution"], opened=False))
        sizes = [len(ids) for ids in tokenizer(texts, add_special_tokens=False).input_ids]
        empty.append(sizes[0])
        worked += sizes[1:]
    key = ("grpo", "max_completion_length")
    if needs_form and statistics.median(empty) > longest:
        message = (
            f"{longest} tokens do not hold <think></think><answer></answer> around an answer, which"
            f" take {statistics.median(empty):.0f}: raise it"
        )
        yield recipe.fault("warning", key, message)
    elif worked and statistics.median(worked) > longest:
        message = (
            f"most worked solutions of the data take more than {longest} tokens, in the median"
            f" {statistics.median(worked):.0f}: what is cut off earns nothing: raise it"
        )
        yield recipe.fault("warning", key, message)


def _repetition_findings(recipe: Recipe, rows: list[dict]) -> Iterator[Fault]:
    """Whether GRPO asks each problem so often that it can learn the answers by heart."""
    size = size_of_run(recipe)
    if size is None:
        return
    group = recipe.settings["grpo"]["num_generations"]
    times = size[1] // group // len(rows)
    if times > OFTEN:
        message = (
            f"each of {len(rows):,} problems is asked {times:,} times, {group} completions each"
            " time: take fewer steps, or a smaller batch, or more problems"
        )
        yield recipe.fault("warning", ("grpo", "max_steps"), message)


def _probe_findings(recipe: Recipe, tokenizer) -> Iterator[Fault]:
    """Whether GRPO would take the pass rates of a finished probe; says how many problems they
    leave."""
    if recipe.data.pass_rate is None or not_probed(recipe) or finished(recipe.stage_dir("grpo")):
        return
    try:
        rows_by_pass_rate(recipe, tokenizer, load_train(recipe)[0])
    except RecipeError as error:
        yield from recipe.faults_of(error, ("data", "pass_rate"), "the probe")


def _gold_findings(recipe: Recipe, rows: list[dict]) -> Iterator[Fault]:
    """Golds that cannot be judged or earned, and hacks that are paid on the other problems; says
    how some golds are read."""
    gradable, ungraded = some_golds(rows, recipe)
    say_examples(gradable, recipe)
    for findings in of_rewards(recipe, gradable, ungraded):
        yield from findings
    if recipe.data.rejection_sampling is not None:
        say(announcement(recipe, rows))


def _window_findings(recipe: Recipe, config, lengths: list[int]) -> Iterator[Fault]:
    """Whether the prompts and a completion fit the model, and what vLLM serves of it."""
    longest = lengths[-1]
    grpo = recipe.settings["grpo"]
    completion = grpo["max_completion_length"]
    limits = []
    window = getattr(config.get_text_config(), "max_position_embeddings", None)
    limits.append(("max_completion_length", window, "the model's "))
    if grpo["use_vllm"]:
        limits.append(("vllm_max_model_length", grpo["vllm_max_model_length"], ""))
    for key, limit, whose in limits:
        if limit and longest + completion > limit:
            advice = f"; take {limit - longest} or less" if limit > longest else ""
            if key == "vllm_max_model_length":
                advice = f"; take {min(window or math.inf, longest + completion)} or more"
            message = (
                f"{longest} tokens of prompt and {completion} of completion do not fit"
                f" {whose}{limit}{advice}"
            )
            level = "error"
            if lengths[0] + completion <= limit:
                count = sum(length + completion > limit for length in lengths)
                level = "warning" if count > len(lengths) / 100 else "hint"
                message += f": training leaves out {count} of {len(lengths)} problems"
            yield recipe.fault(level, ("grpo", key), message)


def _parameter_findings(recipe: Recipe, config, gpu: GPU | None) -> Iterator[Fault]:
    """Whether the number of parameters suits the learning rate, and the machine."""
    rate = recipe.settings["grpo"]["learning_rate"]
    weights = memory.on_meta(recipe, config).parameters()
    parameters = sum(weight.numel() for weight in weights)
    if gpu and gpu.speed:
        speed = tokens_per_second(recipe, gpu, parameters / 1e9)
        at_most = hours_of_run(recipe, speed)
        if at_most:
            usual = hours_of_run(recipe, speed, USUAL_TOKENS)
            speed = float(f"{speed:.2g}")
            say(
                f"GRPO: at most about {at_most:.1f} h, {usual:.1f} h at {USUAL_TOKENS} tokens a"
                f" completion, if it does {speed:,.0f} tokens a second (docs/gpu.md)"
            )
    if parameters <= SMALL:
        return
    size = f"{parameters / 1e9:.2g} B weights"
    if recipe.adapter is None and rate > 1e-5:
        message = f"{rate:g} is a learning rate for an adapter; all {size} want 1e-6 or so"
        yield recipe.fault("warning", ("grpo", "learning_rate"), message)
    if gpu or torch.cuda.is_available():
        return
    level = "hint"
    advice = "take a CPU half an hour at least, and perhaps days: time a few steps first"
    advice += " (grpo.max_steps=4)"
    if parameters > LARGE:
        level = "warning"
        advice = "are too many to train on a CPU: take a GPU, or try the chain with"
        advice += " RECIPE=tiny-arithmetic"
    message = f"no GPU here, and {size} {advice} (GPU=T4 checks for one that is elsewhere)"
    yield recipe.fault(level, ("model",), message)


def _disk_findings(recipe: Recipe, config, gpu: GPU | None) -> Iterator[Fault]:
    """Whether GRPO's checkpoints fit on the disk of the output folder. What has been written of
    them already counts as free."""
    _, trained = memory.parameter_bytes(memory.on_meta(recipe, config), recipe)
    grpo = recipe.settings["grpo"]
    saves = math.ceil(grpo["max_steps"] / grpo["save_steps"])
    count = most_checkpoints(saves, grpo["save_total_limit"], grpo["eval_strategy"] != "no")
    needed = 3 * count * trained  # with AdamW's two moments
    folder = recipe.stage_dir("grpo")
    needed -= sum(map(bytes_of, checkpoints_of(folder)))
    if needed >= 1e9:
        say(f"disk: up to {needed / 1e9:,.1f} GB for {count} checkpoints at once")
    existing = next(path for path in [folder, *folder.absolute().parents] if path.is_dir())
    free = shutil.disk_usage(existing).free
    if free < needed and not gpu:
        message = (
            f"the checkpoints take {needed / 1e9:,.1f} GB at once, and {existing} has"
            f" {free / 1e9:,.1f} GB left: make room, lower save_total_limit, or take another"
            " output_dir"
        )
        yield recipe.fault("error", ("grpo", "save_steps"), message)


def _memory_findings(
    recipe: Recipe, prompts: tuple[int, int], launched: dict, named: GPU | None
) -> Iterator[Fault]:
    """Whether the estimated memory of training fits the GPU, or this machine's; `prompts`: the
    tokens of the longest prompt, and of one that 99% do not exceed."""
    longest, usual = prompts
    gpu = named.gib if named else memory.this_gpu()
    ram = psutil.virtual_memory().total / memory.GIB
    try:
        parts = memory.estimate(recipe, longest, memory.shards(launched), gpu)
    except memory.NotEstimated as error:
        yield from error.faults
        return
    total = parts.total / memory.GIB
    room = f" of this machine's {ram:.0f}"
    if gpu:
        room = f" on each GPU of {gpu:.0f}"
    say(f"memory: {total:.1f} GiB{room} ({make_command('memory', recipe)} has the parts)")
    if not gpu and total > ram:
        message = (
            f"no GPU here, and about {total:.1f} GiB will not fit this machine's {ram:.0f}: make it"
            " smaller, or take a GPU (GPU=24 checks for one that is elsewhere)"
        )
        yield recipe.fault("error", ("grpo", "per_device_train_batch_size"), message)
    if gpu and total > gpu:
        key = "per_device_train_batch_size"
        size = recipe.grpo.get(key, recipe.settings["grpo"][key])
        message = (
            f"about {total:.1f} GiB will not fit a GPU of {gpu:.0f}: make it {size // 2 or 1} and"
            " gradient_accumulation_steps twice as much, lower max_completion_length or"
            " vllm_gpu_memory_utilization, or take a smaller model (make memory has the parts)"
        )
        yield recipe.fault("error", ("grpo", "per_device_train_batch_size"), message)
    elif gpu and not memory.fits(recipe, parts, gpu):
        needed = parts.vllm_weights + parts.vllm_work + memory.vllm_cache_bytes(recipe)
        message = (
            "vLLM's share of the GPU does not hold the weights and one completion; take"
            f" {math.ceil(100 * needed / memory.GIB / gpu) / 100:g} or more, or more GPUs for each"
            " copy (grpo.vllm_tensor_parallel_size)"
        )
        yield recipe.fault("error", ("grpo", "vllm_gpu_memory_utilization"), message)
    elif gpu and parts.vllm_weights:
        _say_at_once(recipe, parts, usual, gpu)


def _say_at_once(recipe: Recipe, parts: memory.Parts, usual: int, gpu: float):
    """Say how many of a step's completions, each of full length, vLLM holds at once, and with which
    share of the GPU it would hold more."""
    grpo = recipe.settings["grpo"]
    length = usual + grpo["max_completion_length"]
    at_once = int(parts.vllm_cache / memory.vllm_cache_bytes(recipe, length))
    completions = recipe.settings.generation.completions
    wanted = completions * grpo["vllm_tensor_parallel_size"] // recipe.processes
    line = f"vLLM holds {min(at_once, wanted)} of a step's {wanted} completions at once"
    share = grpo["vllm_gpu_memory_utilization"]
    awake = 0 if parts.in_turns else parts.activations + parts.logits
    # A twentieth is left to the driver, to the context and to fragments.
    bearable = 0.95 - (parts.always - parts.vllm_work + awake) / memory.GIB / gpu
    if at_once < wanted and bearable > share + 0.05:
        line += f"; grpo.vllm_gpu_memory_utilization may be {int(20 * bearable) / 20:g}"
    say(line)


def _say_prompt(recipe: Recipe, tokenizer, row: dict):
    """Say the first prompt as the model reads it, and how a completion starts and ends."""
    ids = prompt.question_ids(tokenizer, row, recipe.prompt.system)
    say("the first prompt, in training and in evaluation, special tokens and all:\n")
    say("  " + tokenizer.decode(ids).replace("\n", "\n  ") + "▸")
    start = "at ▸"
    if prompt.think_opened(tokenizer):
        start = "inside <think>, which the template opens"
    padding = "differs from it"
    if tokenizer.pad_token_id == tokenizer.eos_token_id:
        padding = "is masked, being eos too"
    end = f"{tokenizer.eos_token!r} ends it; the pad token {padding}"
    say(f"\n{len(ids)} tokens; the completion starts {start}; {end}")


def tokens_per_second(recipe: Recipe, gpu: GPU, billions: float) -> float:
    """An estimate of how fast such GPUs, one for each process, sample and train a model of so many
    weights."""
    speed = 1000 * gpu.speed * recipe.processes / billions
    if recipe.settings["grpo"]["use_vllm"]:
        return speed
    return speed / WITHOUT_VLLM


def hours_of_run(recipe: Recipe, speed: float, length: float = math.inf) -> float | None:
    """The hours of a run, if it is known how long it is.

    Args:
        speed: tokens a second.
        length: the mean length of a completion in tokens; at most what it may have.
    """
    size = size_of_run(recipe)
    if size is None:
        return None
    steps, completions, tokens = size
    tokens = min(tokens, completions * length)
    return (tokens / speed + steps * STEP_SECONDS) / 3600 + OTHER_HOURS
