"""The line of a logging step, the lines that a resumed run keeps; a long step says what it is
doing, and a signal in it how long it will still take."""

import re
import signal
from types import SimpleNamespace

import pytest
import torch
from transformers import TrainerControl, TrainerState

from tests.stage_process import Started
from tests.support import FEW_PROBLEMS, ROOT, read_lines
from tests.tables import cases, lacking
from training import callbacks, sampling, train
from training.callbacks import log_line, time_by_part
from training.sampling import Rollout

ARGS = SimpleNamespace(gradient_accumulation_steps=4)
QUICK = "from training import callbacks\ncallbacks.SILENCE = 0.01\n"
GRPO = "from stages.grpo import main\nfrom stages.cli import run\nrun('grpo', main)\n"
SHORT = ["recipes/tiny-arithmetic.yaml", "sft=null", *FEW_PROBLEMS]
SHORT += ["grpo.gradient_accumulation_steps=4", "grpo.per_device_train_batch_size=64"]
SHORT += ["grpo.num_iterations=1"]


@cases(__file__, "lines")
def test_a_line_says_what_a_person_watches(logs, step, steps, seconds, line):
    assert log_line(logs, step, steps, seconds) == line


@pytest.mark.parametrize(("peak", "logged"), [(None, None), (3 * 2**29, 1.5)])
def test_a_line_has_the_peak_of_a_gpus_memory(tmp_path, monkeypatch, peak, logged):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: peak is not None)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: peak)
    state = TrainerState(log_history=[{"step": 1, "loss": 2.0}], is_world_process_zero=True)
    callbacks.Metrics(tmp_path).on_log(None, state, TrainerControl())
    [line] = read_lines(tmp_path / "metrics.jsonl")
    assert line.get("memory/peak_gib") == logged == state.log_history[0].get("memory/peak_gib")


@pytest.fixture
def clock(monkeypatch):
    """The time, which can be set."""
    at = SimpleNamespace(now=1000.0)
    fake = SimpleNamespace(monotonic=lambda: at.now)
    monkeypatch.setattr(callbacks, "time", fake)
    monkeypatch.setattr(sampling, "time", fake)
    return at


@pytest.fixture
def shown(clock):
    """The progress of a run in its second step, the first of which took 100 s."""
    shown, state = callbacks.Progress(), TrainerState(global_step=0)
    shown.on_train_begin(ARGS, state, None)
    shown.on_step_begin(ARGS, state, None)
    assert shown.time_remaining() == "but it is too early to say when"
    clock.now += 100
    state.global_step = 1
    shown.on_step_end(ARGS, state, None)
    shown.on_step_begin(ARGS, state, None)
    return shown


def test_what_is_left_of_a_step_is_what_the_last_ones_took(shown, clock):
    clock.now += 30
    assert shown.time_remaining() == "in about 70 s"
    assert shown.time_remaining(steps=3) == "in about 4 min"
    clock.now += 300
    assert shown.time_remaining() == "in about 1 s"


def test_of_an_evaluation_a_step_is_still_to_come(shown, clock):
    clock.now += 50
    shown.on_step_end(ARGS, TrainerState(global_step=2), None)
    assert shown.time_remaining() == "in about 50 s after the evaluation or checkpoint under way"


def test_what_only_the_first_step_takes_is_not_left_for_others(clock, capsys):
    shown, state = callbacks.Progress(), TrainerState(global_step=0, max_steps=127)
    shown.on_train_begin(None, state, None)
    for state.global_step, took in enumerate([60.0, *[0.5] * 6], 1):
        clock.now += took
        shown.on_step_end(None, state, None)
    shown.on_log(None, state, None, {"loss": 1.0})
    assert capsys.readouterr().err == "step   7/127  loss 1  0.5 s/step  60 s left\n"


def test_a_long_step_says_what_it_is_doing(shown, clock, capsys):
    """After each minute without a line."""

    def generate(input_ids, generation_config, stopping_criteria):
        for tokens in range(1, 65):
            clock.now += 1
            stopping_criteria(torch.zeros(8, 10 + tokens, dtype=torch.long), None)

    rollout = Rollout(SimpleNamespace(generate=generate, num_parameters=lambda: 0), in_shards=True)
    rollout.show = shown.show
    prompts, limits = torch.zeros(8, 10), SimpleNamespace(max_new_tokens=1024)
    rollout(input_ids=prompts, generation_config=limits)
    line = "step 2: sampling 8 completions, token {} of at most 1,024, 8 tokens/s\n"
    assert capsys.readouterr().err == line.format(1) + line.format(61)
    clock.now += 60
    shown.on_substep_end(ARGS, None, None)
    shown.on_substep_end(ARGS, None, None)
    assert capsys.readouterr().err == "step 2: 1 of 4 batches trained on\n"
    shown.on_step_end(ARGS, TrainerState(global_step=2), None)
    clock.now += 60
    rollout(input_ids=prompts, generation_config=limits)
    assert capsys.readouterr().err.startswith("evaluation: sampling 8 completions, token 1 of")


def test_every_second_is_counted_once(clock):
    """A step, its evaluation, its checkpoint, and the next step; two lines of history."""
    watch = callbacks.Stopwatch()
    watch.on_train_begin(ARGS, state := TrainerState(), None)

    def after(seconds: float, event: str):
        clock.now += seconds
        getattr(watch, event)(ARGS, state, None)

    wait = SimpleNamespace(run=lambda seconds: setattr(clock, "now", clock.now + seconds))
    reward = watch.part("rewards")(wait.run)
    sample = watch.part("sampling")(wait.run)
    after(1, "on_step_begin")
    sample(20)
    reward(3)
    after(10, "on_step_end")
    state.log_history.append({"loss": 0.5})
    after(1, "on_log")
    sample(30)
    reward(5)
    after(0, "on_prediction_step")
    state.log_history.append({"eval_loss": 0.5})
    after(1, "on_log")
    after(1, "on_evaluate")
    after(7, "on_save")
    after(1, "on_step_begin")
    sample(10)
    after(10, "on_train_end")
    assert state.log_history[0]["seconds/sampling"] == 20
    assert [state.log_history[i]["seconds/evaluation"] for i in (0, 1)] == [0, 37]
    parts = time_by_part(state.log_history)
    seconds = {part: spent["seconds"] for part, spent in parts.items()}
    expected = {"sampling": 30, "rewards": 3, "update": 10, "evaluation": 37, "saving": 7}
    assert seconds == expected | {"rest": 13}
    assert sum(spent["share"] for spent in parts.values()) == pytest.approx(1, abs=1e-3)


def test_a_run_that_took_no_step_has_no_shares():
    assert {each["share"] for each in time_by_part([]).values()} == {0.0}


@pytest.mark.parametrize(
    ("cycle", "step", "names"), [(1, 7, ["70 s"]), (4, 2, ["2 steps", "generation batch", "3 min"])]
)
def test_a_first_signal_says_how_long_it_takes(
    cycle, step, names, shown, clock, monkeypatch, capfd
):
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)  # pytest keeps its own
    watch = train.Interrupts(cycle)
    watch.progress = shown
    clock.now += 30
    watch.on_train_begin(None, None, TrainerControl())
    watch.on_step_begin(None, TrainerState(global_step=step), TrainerControl())
    watch._catch(signal.SIGINT, None)
    [message] = capfd.readouterr().err.strip().splitlines()
    assert lacking([*names, "saved first", "second signal"], message) == []


@pytest.mark.train
def test_a_log_file_gets_a_line_now_and_then_and_ctrl_c_while_it_samples_is_answered(tmp_path):
    """Lines of the sampling, token by token, and of the batches trained on, of which four take a
    tenth of a second. Ctrl-C goes on to the end of the step, and saves it."""
    (tmp_path / "quick.py").write_text(QUICK + GRPO)
    arguments = [*SHORT, "grpo.max_steps=300", f"output_dir={tmp_path}/run"]
    started = Started(str(tmp_path / "quick.py"), *arguments, cwd=ROOT)
    started.until(lambda: re.search("^step 2: .*token", started.printed("stderr"), re.M))
    started.send(signal.SIGINT)
    ended = started.ended(60)
    assert ended.returncode == 130
    answer = r"stopping: this step will be finished and saved first, in about \d+ s;"
    assert re.search(answer, ended.stderr)
    assert len(list((tmp_path / "run/grpo").glob("checkpoint-*/manifest.json"))) == 1
    lines = [line for line in ended.stderr.splitlines() if re.match(r"step \d: ", line)]
    sampling = r"sampling 256 completions, token (\d+) of at most 48, [\d,]+ tokens/s"
    assert sum(bool(re.search(sampling, line)) for line in lines) >= 3
    assert any(re.search(r"[123] of 4 batches trained on", line) for line in lines)
