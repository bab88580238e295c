"""The training run that all stages share: it can be stopped, killed and resumed, and stops rather
than go wrong.

After SIGTERM (preemption), SIGINT (Ctrl-C) or SIGHUP (the terminal is gone) the run finishes its
step, saves it, and says how to resume. A checkpoint can be resumed bit for bit only between two
generation batches, so the run first finishes the current one: a single optimizer step, unless
`steps_per_generation` or `num_iterations` is set. A second signal ends the run at once. But a batch
system signals every process of a job, and torch's launcher then passes its own signal on to its
ranks; so under a launcher, a signal that soon follows the first is taken for its echo and ignored.
A SIGHUP is never the second: kernel, shell and make each send one.
"""

import inspect
import os
import signal
import time
import traceback
from pathlib import Path

import psutil
import torch
from huggingface_hub.errors import StrictDataclassError
from peft import PeftModel
from transformers import Trainer, TrainerCallback

from console.faults import (
    EXIT_CODES,
    OUT_OF_MEMORY,
    REFUSALS,
    TEMPLATE,
    RecipeError,
    RunStopped,
    is_out_of_memory,
    on_signals,
    raised_by,
)
from console.terminal import clean, make_command, say
from data import hub
from runs.records import public
from runs.refusals import run_folders, unwritten
from runs.state import RunState, checkpoints_of, has_training, resume_advice
from schema.recipe import Recipe
from schema.stages import chain
from training.callbacks import Progress, callbacks_of
from training.merging import without_adapter
from training.model import base_model, name_base
from training.process_group import in_group, is_lost, leave, leave_group

# With several processes on a CPU, transformers loads the optimizer to "cpu:0", a location that
# torch does not know.
torch.serialization.register_package(
    99,
    lambda storage: None,
    lambda storage, location: storage if location.startswith("cpu:") else None,
)

ECHO = 10 if "TORCHELASTIC_RUN_ID" in os.environ else 0  # seconds in which a signal is an echo


class Interrupts(TrainerCallback):
    """Stops a run after a signal. `caught`: the signal that this process received, or None;
    `agreed`: the signal that all processes stop for.

    Args:
        cycle: the optimizer steps after which a generation batch is finished
            (`Generation.aligned_steps`).
    """

    def __init__(self, cycle: int = 1):
        self.cycle = cycle
        self.training = False
        self.step = 0
        self.progress = Progress()
        self.caught: int | None = None
        self.agreed: int | None = None
        self.echo_until = 0.0
        on_signals(self._catch)

    def _catch(self, number, frame):
        if number == self.caught and time.monotonic() < self.echo_until:
            return
        if number == signal.SIGHUP and self.caught is not None:
            return
        if not self.training or self.caught not in (None, signal.SIGHUP) or _has_lost_process():
            os._exit(EXIT_CODES[number])
        self._note(number)
        if number == signal.SIGHUP:  # the terminal is gone, and printing must not end the run
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
        if os.environ.get("LOCAL_RANK", "0") == "0":
            # not print, which the signal may have interrupted
            os.write(2, f"\n{self._announcement()}\n".encode())

    def _announcement(self) -> str:
        steps = self.cycle - self.step % self.cycle
        work = "this step"
        if steps > 1:
            work = f"{steps} steps, to the end of this generation batch,"
        return (
            f"stopping: {work} will be finished and saved first,"
            f" {self.progress.time_remaining(steps)}; a second signal stops at once"
        )

    def _note(self, number: int):
        self.caught = number
        self.echo_until = time.monotonic() + ECHO

    def on_train_begin(self, args, state, control, **kwargs):
        self.training = True

    def on_step_begin(self, args, state, control, **kwargs):
        self.step = state.global_step

    def on_step_end(self, args, state, control, **kwargs):
        self.agreed = _agreed(self.caught)
        if self.agreed is not None and self.caught is None:
            self._note(self.agreed)
        # Not `caught`: a signal that came since would stop this process alone.
        if self.agreed is not None and state.global_step % self.cycle == 0:
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args, state, control, **kwargs):
        self.training = False


def _has_lost_process() -> bool:
    """Whether another process of the same launcher has ended. The launcher's signal then asks for
    nothing to be saved, and this process could finish no step."""
    started = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if started == 1:
        return False
    try:
        children = psutil.Process(os.getppid()).children()
        running = [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
        return len(running) < started
    except psutil.Error:  # it would come out of the code that the signal interrupted
        return False


def _agreed(caught: int | None) -> int | None:
    """The signal that any process caught, or None: all must stop after the same step."""
    if not in_group():
        return caught
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    highest = torch.tensor([int(caught or 0)], device=device)
    torch.distributed.all_reduce(highest, torch.distributed.ReduceOp.MAX)
    if not int(highest):
        return None
    return signal.Signals(int(highest))


@hub.offline()  # at every save peft would ask it for the base model's config
def train(
    trainer: Trainer,
    run: RunState,
    recipe: Recipe,
    interrupts: Interrupts,
    stage: str,
    write_page: TrainerCallback,
):
    """Train from the run's checkpoint, or from the start without one, and save the model.

    After a signal the program ends once the step is finished and saved, with exit code 75 for
    SIGTERM and 130 for SIGINT.

    Raises:
        RunStopped: memory or disk is full, a library rejects a value, or vLLM's server is gone; the
            message says what to change.
        RecipeError: the checkpoint is of another kind of launcher, or of another account.
    """
    run_folders.append(run.folder)
    if run.checkpoint:
        require_same_sharding(trainer, run.checkpoint)
        if sharded(trainer):
            require_own_checkpoints(run.folder)
    callbacks = callbacks_of(trainer, recipe, run.folder, interrupts, write_page)
    trainer.callback_handler.callbacks = callbacks
    trainer.args.save_total_limit = None  # the library would prune before the new one is complete
    if getattr(trainer, "rollout", None):
        trainer.rollout.show = interrupts.progress.show
    name_base(trainer.accelerator.unwrap_model(trainer.model), base_model(recipe))
    _end_at_the_last_step(trainer)
    try:
        _resume(trainer, run, interrupts.progress)
        if interrupts.agreed is not None:
            _leave_after_signal(trainer, run, recipe, interrupts, stage)
        trainer.save_model()
    except Exception as error:
        stop = _stop_for(error, run, recipe, stage)
        if stop is None:
            raise
        raise stop from error


def _leave_after_signal(
    trainer: Trainer, run: RunState, recipe: Recipe, interrupts: Interrupts, stage: str
):
    """End the program, and say which command resumes the run."""
    step = trainer.state.global_step
    steps = trainer.state.max_steps
    say(f"{stage}: stopped at step {step} of {steps}, saved in {run.folder}/checkpoint-{step}")
    command = make_command(chain() or stage, recipe)
    say(f"the same command resumes from there\nnext: {command}")
    leave(EXIT_CODES[interrupts.agreed], has_left_group=leave_group())


def _stop_for(error: Exception, run: RunState, recipe: Recipe, stage: str) -> RunStopped | None:
    """The message with which a run ends after an error that its user can mend; None for any other
    error."""
    if is_out_of_memory(error):
        message = f"{out_of_memory(recipe, stage)}\n{resume_advice(run.folder)}"
        return RunStopped(message, OUT_OF_MEMORY)
    package = raised_by(error)
    if package == "requests":  # trl's client, which asked again for about a minute
        message = "the vLLM server is gone: see its output, and start it again."
        code = EXIT_CODES[signal.SIGTERM]
        return RunStopped(f"{message} {resume_advice(run.folder)}", code)
    is_refusal = package and isinstance(error, (*REFUSALS, RuntimeError, StrictDataclassError))
    is_refusal = is_refusal or package == TEMPLATE
    if not is_refusal or is_lost(error) or unwritten(error):
        return None
    trace = run.folder / "error.txt"
    full = public("".join(traceback.format_exception(error)), run.folder)
    trace.write_text(clean(full), encoding="utf-8")
    message = f"{stage}: {package} says: {' '.join(str(error).split())} (full traceback: {trace})."
    return RunStopped(f"{message} {resume_advice(run.folder)}")


def sharded(trainer: Trainer) -> bool:
    """Whether a process may hold only a part of each weight."""
    return trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled


def _sharding(is_fsdp: bool, is_deepspeed: bool) -> str:
    if is_fsdp:
        return "FSDP"
    if is_deepspeed:
        return "DeepSpeed"
    return "DDP or one process"


def require_same_sharding(trainer: Trainer, checkpoint: str):
    """Refuse a checkpoint that was written under another kind of launcher: its optimizer has
    another form, which transformers would silently go on without.

    Raises:
        RecipeError: names both.
    """
    names = {file.name for file in Path(checkpoint).iterdir()}
    has_fsdp_files = any(name.startswith("pytorch_model_fsdp") for name in names)
    before = _sharding(has_fsdp_files, "latest" in names)
    now = _sharding(trainer.is_fsdp_enabled, trainer.is_deepspeed_enabled)
    if before != now:
        message = (
            f"{checkpoint} was written under {before}, and this is {now}, which cannot resume its"
            f" optimizer: launch the run as it began, or delete {Path(checkpoint).parent}"
        )
        raise RecipeError([message])


def require_own_checkpoints(run: Path):
    """Refuse checkpoints of another account under FSDP and DeepSpeed, which load pickles; without
    them transformers loads numbers alone (torch's `weights_only`).

    Raises:
        RecipeError: names a checkpoint, and how it becomes this account's.
    """
    for checkpoint in checkpoints_of(run):
        if checkpoint.stat().st_uid != os.getuid():
            message = (
                f"{checkpoint} belongs to another account, and FSDP and DeepSpeed run code that its"
                f" files may hold. If you trust it, copy {run.parent} (cp -r) and resume the copy"
                " (output_dir); if not, give this run its own folder"
            )
            raise RecipeError([message])


@torch.no_grad()
def require_known_head(trainer: Trainer, name: str):
    """Refuse a model that trl would train on other log-probabilities than it samples with. trl
    (1.16) computes them from the last hidden states and the head alone; a few models, most of
    BERT's kind, compute something between the two.

    Raises:
        RecipeError: names the model, and by how much they differ.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    base = without_adapter(model)
    parameters = inspect.signature(base.forward, follow_wrapped=False).parameters
    # A reward model does not train so; shards would have to be gathered.
    if sharded(trainer) or "fused_lm_head" not in parameters:
        return
    was_training = model.training
    model.eval()
    vocab_size = base.config.get_text_config().vocab_size
    tokens = torch.arange(1, 17, device=model.device)[None] % vocab_size
    batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    logits = model(**batch).logits[:, :-1].float() / getattr(trainer.args, "temperature", 1.0)
    sampled = logits.log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    trained = model(**batch, labels=tokens, fused_lm_head=True).log_probs
    model.train(was_training)
    difference = (sampled - trained).abs().max().item()
    # Where the two ways agree, they differ by 1e-6 in float32, and by some tenths in 16 bits.
    limit = 1.0
    if model.dtype == torch.float32:
        limit = 0.01
    if difference > limit:
        message = (
            f"model {name}: trl would train other log-probabilities than it samples with"
            f" ({difference:.2g} nats apart): it needs a model whose head follows its last layer"
        )
        raise RecipeError([message])


def _resume(trainer: Trainer, run: RunState, progress: Progress):
    """Train from the run's checkpoint, or from the start without one. Raises RunStopped where a
    library cannot read the checkpoint."""
    try:
        checkpoint = run.checkpoint
        if checkpoint and not sharded(trainer):
            policy = trainer.accelerator.unwrap_model(trainer.model)
            if isinstance(policy, PeftModel):
                # Beside a reference's adapter, which has a folder of its own, transformers loads no
                # second one.
                loaded = policy.load_adapter(checkpoint, "default", is_trainable=True)
                if loaded.missing_keys:
                    raise _not_resumed(run, f"it lacks {loaded.missing_keys[0]}")
        trainer.train(resume_from_checkpoint=checkpoint)
    except Exception as error:
        has_begun = run.checkpoint is None or progress.step is not None
        has_message = isinstance(error, OSError) or is_out_of_memory(error) or is_lost(error)
        if has_begun or has_message or raised_by(error) is None:
            raise
        first_line = (str(error).strip().splitlines() or [""])[0]
        raise _not_resumed(run, f"{type(error).__name__}: {first_line:.200}") from error


def _not_resumed(run: RunState, reason: str) -> RunStopped:
    advice = "delete it, and the same command resumes from the one before it"
    return RunStopped(f"{run.checkpoint} cannot be resumed ({reason}): {advice}")


def _end_at_the_last_step(trainer: Trainer):
    """Take no step after the last one. transformers looks at `max_steps` after a step, and so takes
    one more where it resumes from the last checkpoint."""
    run_epoch = trainer._run_epoch

    def run_unless_ended(**arguments):
        if trainer.state.global_step < trainer.state.max_steps:
            run_epoch(**arguments)

    trainer._run_epoch = run_unless_ended


def keep_adapter_float32(trainer: Trainer, loaded: dict[str, torch.Tensor] | None = None):
    """Undo trl's cast of a quantised model's adapter to bfloat16, where a step of 1e-5 is lost on
    every weight above 0.004. A resumed run would continue in float32 in any case, because peft
    loads an adapter in it.

    Args:
        loaded: the weights of a loaded adapter by name, as they were before the cast.
    """
    if sharded(trainer):  # the shards are gathered into buffers of one dtype
        return
    loaded = loaded or {}
    for name, parameter in trainer.model.named_parameters():
        # Modules that are trained without an adapter compute in the model's dtype.
        if parameter.requires_grad and "modules_to_save" not in name:
            weights = loaded.get(name, parameter.data)
            parameter.data = weights.to(parameter.device, torch.float32)


def out_of_memory(recipe: Recipe, stage: str = "grpo") -> str:
    """The message that names the lines of the recipe to change, and to what."""
    size_key = "per_device_train_batch_size"
    settings = recipe.settings[stage]
    size = settings[size_key]
    steps = settings["gradient_accumulation_steps"] * recipe.processes
    owner, length = stage, "max_length"
    if stage != "sft":
        owner, length = "grpo", "max_completion_length"
    limit = recipe.settings[owner][length]
    lines = ["out of memory. Change one of these:"]
    if size > 1:
        half = next(part for part in range(size // 2, 0, -1) if size % part == 0)
        more = f" gradient_accumulation_steps {steps} → {steps * size // half},"
        per_generation = settings.get("steps_per_generation")
        if per_generation:
            per_generation *= recipe.processes
            more += f" steps_per_generation {per_generation} → {per_generation * size // half},"
        lines.append(
            f"  {recipe.place(stage, size_key)}: {stage}.{size_key} {size} → {half}, and{more}"
            " which keeps the size of a step"
        )
    if limit:
        change = f"{owner}.{length} {limit} → {limit // 2}"
        if has_training(recipe.stage_dir(stage)):
            change += ", in a run of its own (output_dir)"
        lines.append(f"  {recipe.place(owner, length)}: {change}")
    return "\n".join(lines)
