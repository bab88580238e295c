"""A run's callbacks hear of each event in an order of their own."""

import json
from types import SimpleNamespace

import pytest
import torch
from transformers import ProgressCallback, TrainerCallback, TrainerControl, TrainerState
from transformers.trainer_callback import CallbackHandler, DefaultFlowCallback

from console.faults import RunStopped
from schema.configs import ACCURACY, EVAL_CORRECT
from schema.recipe import load_recipe
from training import callbacks as clocks
from training.callbacks import KeepBest, Stopwatch, callbacks_of
from training.scoring import Batch, Scores
from training.train import Interrupts

SFT = "Interrupts DefaultFlowCallback FiniteNumbers TrainerCallback Checkpoints Progress Stopwatch"
SFT += " Metrics"
GRPO = SFT.replace("FiniteNumbers", "FiniteNumbers SameOrder KeepBest ShowAdvice")
SHARDED = GRPO.replace("ShowAdvice", "ShowAdvice Reshard")


@pytest.fixture
def handler(tmp_path, monkeypatch):
    """A function that makes transformers' handler of the callbacks of a run in `tmp_path`."""
    monkeypatch.setattr("training.train.on_signals", lambda catch: None)

    def made(samples=True, is_fsdp=False, order=lambda callbacks: callbacks, page=None):
        trainer = SimpleNamespace(
            callback_handler=SimpleNamespace(callbacks=[DefaultFlowCallback(), ProgressCallback()]),
            args=SimpleNamespace(save_total_limit=2, output_dir=str(tmp_path)),
            is_fsdp_enabled=is_fsdp,
        )
        if samples:
            trainer.scores = Scores([], set())
            trainer.scores.batch = Batch({"problem": ["1 + 1"]}, {"correct_answer": [1.0]})
            trainer.keep_best = KeepBest(0, trainer.scores)
            trainer.stopwatch = Stopwatch()
        recipe = load_recipe("recipes/tiny-arithmetic.yaml")
        page = page or TrainerCallback()
        callbacks = order(callbacks_of(trainer, recipe, tmp_path, Interrupts(), page))
        model = torch.nn.Linear(1, 1)
        handler = CallbackHandler(callbacks, model, None, None, None)
        in_order = SimpleNamespace(sampler=SimpleNamespace(shuffle=False))
        handler.train_dataloader = SimpleNamespace(batch_sampler=in_order)
        return handler

    return made


@pytest.mark.parametrize(
    "samples, is_fsdp, names",
    [(False, False, SFT), (True, False, GRPO), (True, True, SHARDED)],
    ids=["sft", "grpo", "grpo with FSDP"],
)
def test_one_list_has_them_in_order(samples, is_fsdp, names, handler):
    callbacks = handler(samples, is_fsdp).callbacks
    assert [type(callback).__name__ for callback in callbacks] == names.split()


def args_of(folder) -> SimpleNamespace:
    options = dict.fromkeys(("logging_strategy", "save_strategy", "eval_strategy"), "no")
    options |= dict.fromkeys(("logging_steps", "save_steps", "eval_steps"), 100)
    return SimpleNamespace(output_dir=str(folder), logging_first_step=False, **options)


def swapped(*names: str):
    """An order in which two callbacks have each other's place."""

    def order(callbacks: list) -> list:
        kinds = [type(callback).__name__ for callback in callbacks]
        i, j = map(kinds.index, names)
        callbacks[i], callbacks[j] = callbacks[j], callbacks[i]
        return callbacks

    return order


class Page(TrainerCallback):
    """Takes two seconds."""

    def __init__(self, clock):
        self.clock = clock

    def on_evaluate(self, args, state, control, **kwargs):
        self.clock.now += 2


@pytest.mark.parametrize(
    "order, answers, evaluation",
    [
        (lambda callbacks: callbacks, True, 9),
        (swapped("KeepBest", "Metrics"), False, None),
        (swapped("Stopwatch", "Metrics"), True, None),
        (swapped("Page", "Stopwatch"), True, 7),
    ],
    ids=["as it is", "Metrics before KeepBest", "Metrics before Stopwatch", "Stopwatch first"],
)
def test_a_line_holds_what_was_added_before_it(
    order, answers, evaluation, handler, tmp_path, monkeypatch
):
    """After two evaluations of seven seconds, of which metrics.jsonl has each with the page that
    was written after the one before."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(clocks.time, "monotonic", lambda: clock.now)
    run = handler(order=order, page=Page(clock))
    state, control = TrainerState(max_steps=8), TrainerControl()
    args = args_of(tmp_path)
    run.on_train_begin(args, state, control)
    for step in (1, 2):
        state.global_step = step
        run.on_step_begin(args, state, control)
        run.on_step_end(args, state, control)
        run.on_prediction_step(args, state, control)
        clock.now += 7
        logs = {"step": step, ACCURACY: 0.5}
        state.log_history.append(logs)
        run.on_log(args, state, control, logs)
        run.on_evaluate(args, state, control, {})
    line = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    assert (EVAL_CORRECT in line, line.get("seconds/evaluation")) == (answers, evaluation)


@pytest.mark.parametrize(
    "order, refuses",
    [(lambda callbacks: callbacks, True), (swapped("Interrupts", "FiniteNumbers"), False)],
    ids=["as it is", "Interrupts after FiniteNumbers"],
)
def test_what_a_signal_saves_is_finite(order, refuses, handler, tmp_path):
    """The checkpoint that a signal asks for is ordered at the end of a step."""
    run = handler(order=order)
    interrupts = next(each for each in run.callbacks if isinstance(each, Interrupts))
    interrupts.caught = 15
    torch.nn.init.constant_(run.model.weight, torch.nan)
    args = args_of(tmp_path)
    state, control = TrainerState(max_steps=8, global_step=1), TrainerControl()
    state.is_world_process_zero = False  # the others look at no disk
    run.on_train_begin(args, state, control)
    if refuses:
        with pytest.raises(RunStopped, match="weight is not finite"):
            run.on_step_end(args, state, control)
    else:
        run.on_step_end(args, state, control)
    assert control.should_save
