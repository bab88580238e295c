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

import functools
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
from transformers import (
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainerState,
)

from console.faults import (
    EXIT_CODES,
    OUT_OF_MEMORY,
    REFUSALS,
    RecipeError,
    RunStopped,
    is_out_of_memory,
    on_signals,
    raised_by,
)
from console.terminal import is_main_process, make_command, say
from data import hub
from schema.configs import setting
from schema.recipe import Recipe
from schema.stages import STAGES, chain
from training import model_files
from training.checkpoints import resume_advice, sealed_here
from training.machines import in_group, is_lost, leave, leave_group
from training.model import base_model, name_base
from training.progress import Metrics, Progress
from training.run_folder import RunFolder
from training.saving import Checkpoints
from training.stopwatch import Stopwatch
from training.writing import begun, unwritten

# With several processes on a CPU, transformers loads the optimizer to "cpu:0", a location that
# torch does not know.
torch.serialization.register_package(
    99, lambda obj: None, lambda obj, place: obj if place.startswith("cpu:") else None
)

ECHO = 10 if "TORCHELASTIC_RUN_ID" in os.environ else 0  # seconds in which a signal is an echo


class Interrupts(TrainerCallback):
    """Stops a run after a signal. `caught`: the signal that this process received, or None;
    `agreed`: the one that all processes stop for.

    Args:
        cycle: `Generation.whole`, after a multiple of which optimizer steps a generation batch is
            done.
    """

    def __init__(self, cycle: int = 1):
        self.cycle, self.training, self.step = cycle, False, 0
        self.progress: Progress | None = None  # set when the run trains
        self.caught = self.agreed = None
        self.echo_until = 0.0
        on_signals(self._catch)

    def _catch(self, number, frame):
        if number == self.caught and time.monotonic() < self.echo_until:
            return
        if number == signal.SIGHUP and self.caught is not None:
            return
        if not self.training or self.caught not in (None, signal.SIGHUP) or _left_alone():
            os._exit(EXIT_CODES[number])
        self._note(number)
        if number == signal.SIGHUP:  # the terminal is gone, and printing must not end the run
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
        steps = self.cycle - self.step % self.cycle
        what = "this step" if steps == 1 else f"{steps} steps, to the end of this generation batch,"
        when = f", {self.progress.time_remaining(steps)}" if self.progress else ""
        said = (
            f"stopping: {what} will be finished and saved first{when}; a second signal stops at"
            " once"
        )
        if os.environ.get("LOCAL_RANK", "0") == "0":
            # not print, which the signal may have interrupted
            os.write(2, f"\n{said}\n".encode())

    def _note(self, number: int):
        self.caught, self.echo_until = number, time.monotonic() + ECHO

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


def _left_alone() -> bool:
    """Whether another process of the same launcher has ended: then its signal asks for nothing to
    be saved, and this process could finish no step."""
    started = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if started == 1:
        return False
    try:
        beside = psutil.Process(os.getppid()).children()
        return sum(each.status() != psutil.STATUS_ZOMBIE for each in beside) < started
    except (
        psutil.Error
    ):  # raised here, it would come out of whatever was interrupted, such as a reward
        return False


def _agreed(caught: int | None) -> int | None:
    """The signal that any process caught, or None: all must stop after the same step."""
    if not in_group():
        return caught
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    most = torch.tensor([int(caught or 0)], device=device)
    torch.distributed.all_reduce(most, torch.distributed.ReduceOp.MAX)
    return signal.Signals(int(most)) if int(most) else None


@hub.unasked()  # at each save peft would ask it for the base model's config
def train(trainer: Trainer, folder: RunFolder, recipe: Recipe, interrupts: Interrupts, stage: str):
    """Train from the folder's checkpoint, or from the start without one, and save the model.

    After a signal the program ends once the step is done and saved, with exit code 75 for SIGTERM
    and 130 for SIGINT.

    Raises:
        RunStopped: memory or disk is full, a library rejects a value, or vLLM's server is gone; the
            message says what to change.
        RecipeError: the checkpoint is of another kind of launcher, or of another account, and
            sharded.
    """
    begun.append(folder.path)
    if folder.checkpoint:
        require_same_sharding(trainer, folder.checkpoint)
        _require_sealed(trainer, folder.checkpoint)
    trainer.add_callback(Checkpoints(trainer.args.save_total_limit))
    trainer.args.save_total_limit = None  # the library would prune before the new one is whole
    # Ours is in their place; the second prints on each machine.
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    progress, stopwatch = Progress(), Stopwatch()
    trainer.add_callback(progress)
    # after what it times, and before what writes the history that it adds to
    trainer.add_callback(stopwatch)
    trainer.add_callback(Metrics(folder.path))
    interrupts.progress = progress
    if STAGES[stage].samples:
        follow_rollouts(trainer, progress, stopwatch)
    name_base(trainer.accelerator.unwrap_model(trainer.model), base_model(recipe))
    # before the callbacks that look at what it orders saved
    trainer.callback_handler.callbacks.insert(0, interrupts)
    _end_at_the_last_step(trainer)
    try:
        _resume(trainer, folder, progress)
        if interrupts.agreed is not None:
            step, steps = trainer.state.global_step, trainer.state.max_steps
            say(
                f"{stage}: stopped at step {step} of {steps}, saved in"
                f" {folder.path}/checkpoint-{step}"
            )
            again = make_command(chain() or stage, recipe)
            say(f"the same command resumes from there\nnext: {again}")
            leave_group()
            leave(EXIT_CODES[interrupts.agreed])
        trainer.save_model()
    except Exception as error:
        if is_out_of_memory(error):
            raise RunStopped(
                f"{out_of_memory(recipe, stage)}\n{resume_advice(folder.path)}", OUT_OF_MEMORY
            ) from error
        package = raised_by(error)
        if package == "requests":  # trl's client, which asked again for about a minute
            message = f"the vLLM server is gone: see its output, and start it again. {resume_advice(folder.path)}"
            raise RunStopped(message, EXIT_CODES[signal.SIGTERM]) from error
        refused = package and isinstance(error, (*REFUSALS, RuntimeError, StrictDataclassError))
        if not refused or is_lost(error) or unwritten(error):
            raise
        trace = folder.path / "error.txt"
        trace.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        raise RunStopped(
            f"{stage}: {package} says: {' '.join(str(error).split())} (full traceback: {trace})."
            f" {resume_advice(folder.path)}"
        ) from error


def sharded(trainer: Trainer) -> bool:
    """Whether a process may hold only a part of each weight."""
    return trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled


def _require_sealed(trainer: Trainer, checkpoint: str):
    # Only the process that seals checkpoints asks: on another machine the account has another key.
    unpickles = is_main_process() and sharded(trainer) and os.environ.get("TRUST_RUN") != "1"
    if unpickles and not sealed_here(Path(checkpoint)):
        message = (
            f"{checkpoint} was written by another account or machine, and the files of FSDP and"
            " DeepSpeed can be "
        )
        message += (
            "pickles, which run code when they are read. If you trust it, put TRUST_RUN=1 before"
            " the command"
        )
        raise RecipeError([message])


def require_same_sharding(trainer: Trainer, checkpoint: str):
    """Refuse a checkpoint that was written under another kind of launcher: its optimizer has
    another form, which transformers would silently go on without.

    Raises:
        RecipeError: names both.
    """
    now = (
        "FSDP"
        if trainer.is_fsdp_enabled
        else "DeepSpeed"
        if trainer.is_deepspeed_enabled
        else "DDP or one process"
    )
    files = {each.name for each in Path(checkpoint).iterdir()}
    fsdp = any(each.startswith("pytorch_model_fsdp") for each in files)
    began = "FSDP" if fsdp else "DeepSpeed" if "latest" in files else "DDP or one process"
    if began != now:
        message = (
            f"{checkpoint} was written under {began}, and this is {now}, which cannot resume its"
            " optimizer: "
        )
        raise RecipeError(
            [f"{message}launch the run as it began, or delete {Path(checkpoint).parent}"]
        )


@torch.no_grad()
def require_known_head(trainer: Trainer, name: str):
    """Refuse a model that trl would train on other log-probabilities than it samples with. trl
    (1.16) has them from the last hidden states and the head alone; a few models, of BERT's kind
    mostly, compute something between the two.

    Raises:
        RecipeError: names the model, and by how much they differ.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    whole = model.get_base_model() if isinstance(model, PeftModel) else model
    # A reward model does not train so; shards would have to be gathered.
    if (
        sharded(trainer)
        or "fused_lm_head" not in inspect.signature(whole.forward, follow_wrapped=False).parameters
    ):
        return
    training = model.training
    model.eval()
    tokens = (
        torch.arange(1, 17, device=model.device)[None] % whole.config.get_text_config().vocab_size
    )
    given = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    logits = model(**given).logits[:, :-1].float() / getattr(trainer.args, "temperature", 1.0)
    sampled = logits.log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    trained = model(**given, labels=tokens, fused_lm_head=True).log_probs
    model.train(training)
    # In float32 what they share differs by 1e-6; in 16 bits by some tenths.
    if (apart := (sampled - trained).abs().max().item()) > (
        0.01 if model.dtype == torch.float32 else 1.0
    ):
        message = (
            f"model {name}: trl would train other log-probabilities than it samples with"
            f" ({apart:.2g} nats apart)"
        )
        raise RecipeError([f"{message}: it needs a model whose head follows its last layer"])


def _resume(trainer: Trainer, folder: RunFolder, progress: Progress):
    try:
        checkpoint = folder.checkpoint
        if checkpoint and not sharded(trainer):
            best = TrainerState.load_from_json(
                f"{checkpoint}/trainer_state.json"
            ).best_model_checkpoint
            if best and Path(best).is_dir():  # it is loaded at the end
                model_files.checkpoint(Path(best))
            checkpoint = str(model_files.checkpoint(Path(checkpoint)))
            policy = trainer.accelerator.unwrap_model(trainer.model)
            if isinstance(policy, PeftModel):
                # Beside a reference's adapter, which has a folder of its own, transformers loads no
                # other.
                lacking = policy.load_adapter(checkpoint, "default", is_trainable=True).missing_keys
                if lacking:
                    raise _not_resumed(folder, f"it lacks {lacking[0]}")
        trainer.train(resume_from_checkpoint=checkpoint)
    except Exception as error:
        begun = folder.checkpoint is None or progress.step is not None
        known = isinstance(error, OSError) or is_out_of_memory(error) or is_lost(error)
        if begun or known or raised_by(error) is None:
            raise
        said = (str(error).strip().splitlines() or [""])[0]
        raise _not_resumed(folder, f"{type(error).__name__}: {said:.200}") from error


def _not_resumed(folder: RunFolder, why: str) -> RunStopped:
    advice = "delete it, and the same command resumes from the one before it"
    return RunStopped(f"{folder.checkpoint} cannot be resumed ({why}): {advice}")


def _end_at_the_last_step(trainer: Trainer):
    """transformers looks at `max_steps` after a step, and so takes one more where its checkpoint is
    the last one."""
    run_epoch = trainer._run_epoch

    def unless_ended(**given):
        if trainer.state.global_step < trainer.state.max_steps:
            run_epoch(**given)

    trainer._run_epoch = unless_ended


def follow_rollouts(trainer: Trainer, progress: Progress, stopwatch: Stopwatch):
    """Time what trl samples and the rewards, and count the tokens."""
    trainer.scores.timed = functools.partial(stopwatch.part, "rewards")
    timed = stopwatch.part("sampling")
    if trainer.use_vllm:
        vllm = trainer.vllm_generation
        vllm.sync_weights = timed(vllm.sync_weights)
        vllm.generate = timed(vllm.generate)
    else:
        policy = trainer.accelerator.unwrap_model(trainer.model)
        policy.generate = timed(progress.counting_tokens(policy.generate))


def keep_adapter_float32(trainer: Trainer, loaded: dict[str, torch.Tensor] | None = None):
    """Undo trl's cast of a quantised model's adapter to bfloat16, where a step of 1e-5 is lost on
    every weight above
    0.004. A resumed run would continue in float32 in any case, because peft loads an adapter in it.

    Args:
        loaded: the weights of a loaded adapter by name, as they were before the cast.
    """
    if sharded(trainer):  # these gather parameters into buffers of one dtype
        return
    for name, parameter in trainer.model.named_parameters():
        # The modules that are trained whole compute in the model's own dtype.
        if parameter.requires_grad and "modules_to_save" not in name:
            parameter.data = (
                (loaded or {}).get(name, parameter.data).to(parameter.device, torch.float32)
            )


def out_of_memory(recipe: Recipe, stage: str = "grpo") -> str:
    """The message that names the lines of the recipe to change, and to what."""
    size, steps = (
        setting(recipe, stage, key)
        for key in ("per_device_train_batch_size", "gradient_accumulation_steps")
    )
    length = "max_completion_length" if STAGES[stage].samples else "max_length"
    limit = setting(recipe, stage, length)
    lines = ["out of memory. Change one of these:"]
    if size > 1:
        key, half = "per_device_train_batch_size", size // 2
        lines.append(
            f"  {recipe.place(stage, key)}: {stage}.{key} {size} → {half}, and"
            f" gradient_accumulation_steps {steps} → {steps * size // half}, which keeps the size"
            " of a step"
        )
    if limit:
        lines.append(f"  {recipe.place(stage, length)}: {stage}.{length} {limit} → {limit // 2}")
    return "\n".join(lines)
