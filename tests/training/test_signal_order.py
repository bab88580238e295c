"""`data.order: by signal` draws what it has learned, the same after a kill and on any number of processes."""

import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from datasets import Dataset
from transformers import TrainerState
from trl import GRPOTrainer
from trl.trainer.utils import RepeatSampler

from data.problems import TAKEN
from schema.faults import RunStopped
from tests.support import ROOT, TWO_PROCESSES, run_stage, same_weights, write_lines
from training.signal_order import COLUMN, HIGH, LOW, MIXED, Belief, Drawn, SignalOrder, labels
from training.trainer import BySignal

LEVELS = ("right", "wrong", "mixed")  # as tests.varied_reward.by_level pays


def order(rows_labels, batch=8, seed=0, lag=1) -> SignalOrder:
    return SignalOrder(rows_labels, batch, seed, high=0.5, lag=lag)


ARGS = SimpleNamespace(gradient_accumulation_steps=1, steps_per_generation=1, num_iterations=1)


def resumed(seen, step: int, rows: int, args=ARGS, steps: int = 99) -> SignalOrder:
    """One that draws two rows at a time, from a checkpoint that says this."""
    state = TrainerState(global_step=step, max_steps=steps)
    state.stateful_callbacks = {"SignalOrder": {"attributes": {"seen": seen}}}
    drawing = order(["a"] * rows, batch=2)
    drawing.on_train_begin(args, state, None)
    return drawing


def played(drawing: SignalOrder, batches: int, outcome) -> list[list[int]]:
    """The rows of so many batches from the epoch's start, each seen before the next is drawn."""
    drawn, epoch = [], drawing.epoch()
    while len(drawn) < batches:
        try:
            rows = next(epoch)
        except StopIteration:
            epoch = drawing.epoch()
            continue
        drawn.append(rows)
        if drawing.drawn:
            rewards = {LOW: [0.0, 0.0], MIXED: [0.0, 1.0], HIGH: [1.0, 1.0]}
            earned = [reward for row in rows for reward in rewards[outcome(row)]]
            drawing.observe({COLUMN: [row for row in rows for _ in range(2)]}, earned, lambda *metric: None)
    return drawn


def test_the_belief_is_the_mean_of_a_beta_posterior():
    """Against draws from the posterior itself: of 9 groups, 6 mixed, all of the last batch."""
    belief = Belief(["a"] * 20 + ["b"])
    belief.learn(list(range(9)), [MIXED] * 6 + [LOW] * 3)
    rng = np.random.default_rng(0)
    share = rng.random(400_000)
    fits = rng.binomial(9, share) == 6
    assert belief.signal()[15] == pytest.approx(share[fits].mean(), abs=0.005)
    assert belief.signal()[20] == 0.5  # nothing is known of b


def test_a_row_that_was_seen_is_judged_by_its_last_outcome():
    belief = Belief(["a"] * 12)
    belief.learn([0, 1, 2, 3], [HIGH, HIGH, LOW, MIXED])
    assert belief.signal()[:4].tolist() == [0.5] * 4  # no such row has been drawn again
    belief.learn([0, 2], [HIGH, MIXED])
    high, low = belief.signal()[[1, 0]], belief.signal()[[3, 2]]
    assert high.tolist() == pytest.approx([1 / 3] * 2)
    assert low.tolist() == [0.5] * 2  # row 2 has become mixed, as row 3 was


def test_old_groups_fade_and_a_class_is_tried_again():
    belief = Belief(["a"] * 20 + ["b"] * 500)
    belief.learn(list(range(10)), [LOW] * 10)
    low = [belief.signal()[15]]
    for batch in range(49):
        belief.learn(list(range(20 + 10 * batch, 30 + 10 * batch)), [MIXED] * 10)
        low.append(belief.signal()[15])
    assert low == sorted(low)
    assert low[10] == pytest.approx(1 / (2 + 5))  # half its ten groups are left
    assert low[-1] > 0.35


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_no_row_comes_twice_in_an_epoch(batch):
    batches = 150 // batch
    drawn = played(order(["a"] * 150, batch=batch), 3 * batches, lambda row: row % 3)
    for epoch in range(3):
        rows = list(chain(*drawn[epoch * batches : (epoch + 1) * batches]))
        assert len(set(rows)) == len(rows) == batches * batch


def test_the_problems_drawn_shift_to_the_mixed_class():
    kinds = [LOW, MIXED, HIGH] * 2000
    drawn = played(order(kinds, batch=16), 60, lambda row: kinds[row])
    first, last = (Counter(kinds[row] for rows in part for row in rows) for part in (drawn[:2], drawn[-30:]))
    assert 4 <= first[MIXED] <= 18  # a third of 32, nothing being known
    assert last[MIXED] / last.total() > 0.8
    assert last[LOW] and last[HIGH]  # the others are still tried


def test_it_finds_the_class_that_becomes_mixed():
    kinds = [0, 1] * 4000
    drawn = played(order(kinds, batch=16), 30, lambda row: MIXED if kinds[row] == 0 else LOW)
    assert np.mean([kinds[row] for row in chain(*drawn[-10:])]) < 0.2
    drawing = order(kinds, batch=16)
    played(drawing, 30, lambda row: MIXED if kinds[row] == 0 else LOW)
    after = []
    for number in range(30, 90):
        rows = drawing._draw(number, np.setdiff1d(np.arange(8000), list(chain(*(each for each, _ in drawing.seen)))))
        drawing.drawn.pop(number)
        drawing.seen.append((rows, [MIXED if kinds[row] == 1 else HIGH for row in rows]))
        after.append(np.mean([kinds[row] for row in rows]))
    assert np.mean(after[-10:]) > 0.8


@pytest.mark.parametrize("lag", [1, 3])
def test_a_draw_knows_all_but_the_last_batches_however_far_ahead_it_is_made(lag):
    """One order sees each batch before it draws the next, the other draws as late as it is allowed to see."""
    kinds = [LOW, MIXED, HIGH] * 50

    def outcome(row):
        return kinds[row]

    prompt, ahead = order(kinds, lag=lag), order(kinds, lag=lag)
    expected = played(prompt, 18, outcome)
    drawing, drawn = ahead.epoch(), []
    for rows in drawing:
        drawn.append(rows)
        if len(drawn) > lag:
            seen = drawn[len(ahead.seen)]
            ahead.drawn.pop(len(ahead.seen))
            ahead.seen.append((seen, [outcome(row) for row in seen]))
    assert drawn == expected
    too_far = order(kinds, lag=1).epoch()
    next(too_far), next(too_far)
    with pytest.raises(IndexError):
        next(too_far)


def test_other_problems_than_were_drawn_are_noticed():
    drawing = order(["a"] * 30, batch=2)
    rows = next(drawing.epoch())
    other = next(row for row in range(30) if row not in rows)
    with pytest.raises(RuntimeError, match="other problems"):
        drawing.observe({COLUMN: [rows[0], other]}, [1.0, 1.0], lambda *metric: None)


def test_held_out_problems_are_not_seen():
    drawing = order(["a"] * 30, batch=2)
    next(drawing.epoch())
    drawing.observe({"problem": ["x", "y"]}, [1.0, 1.0], lambda *metric: None)
    assert drawing.seen == []
    assert COLUMN in TAKEN  # nor may data have a column of that name


def test_outcomes():
    drawing = order(["a"] * 30)
    given = [[1.2] * 8, [0.25] * 8, [0.1 + 0.2, 0.3, None], [0.0, 1.0], [None, None], [None, 1.0]]
    assert [drawing._outcome(each) for each in given] == [HIGH, LOW, LOW, MIXED, LOW, HIGH]


def test_what_was_seen_comes_back_from_a_checkpoint():
    kinds = [LOW, MIXED, HIGH] * 50
    whole, cut = order(kinds), order(kinds)
    expected = played(whole, 40, lambda row: kinds[row])  # 18 an epoch
    played(cut, 23, lambda row: kinds[row])
    state = TrainerState(stateful_callbacks=[cut], global_step=23, max_steps=40)
    after = order(kinds)
    after.on_train_begin(ARGS, state, None)
    assert after.seen == cut.seen
    assert played(after, 22, lambda row: kinds[row]) == expected[18:]


NONSENSE = [["1:1"], ["1:1 1:1"], ["1:1 99:1"], ["1:1 2:9"], ["1:1 2"], ["x"], [""], [7], None, []]
NONSENSE += [["1:1 2:1 99:1"], ["1:1 2:1 -1:1"], ["1:1 2:1 2:1"], ["1:1 2:1", "3:1 4:1"]]


@pytest.mark.parametrize("seen", NONSENSE)
def test_a_checkpoint_that_says_nonsense_is_refused(seen):
    with pytest.raises(RunStopped, match="which problems a run of 2 at a time had drawn"):
        resumed(seen, step=1, rows=30)
    assert resumed(["1:1 2:1"], step=1, rows=30).seen == [([1, 2], [1, 1])]


def test_no_row_is_read_twice_in_an_epoch():
    first, second = ["0:1 1:1", "2:1 3:1"], ["3:1 4:1", "0:1 2:1"]
    assert len(resumed([*first, *second], step=4, rows=5).seen) == 4
    with pytest.raises(RunStopped, match="which problems"):
        resumed([*first, second[1], first[0]], step=4, rows=5)


@pytest.mark.parametrize(
    ("accumulated", "cycle", "step", "batches"),
    [(1, 1, 7, 7), (3, 1, 2, 5), (3, 1, 3, 8), (1, 4, 8, 2), (2, 4, 3, 2), (1, 4, 19, 5)],
)
def test_a_checkpoint_holds_the_batches_sampled_by_its_step(accumulated, cycle, step, batches):
    """Five batches an epoch."""
    sizes = SimpleNamespace(gradient_accumulation_steps=accumulated, steps_per_generation=cycle, num_iterations=1)
    seen = [f"{2 * (n % 5)}:1 {2 * (n % 5) + 1}:1" for n in range(batches + 1)]
    assert len(resumed(seen[:-1], step, rows=10, args=sizes, steps=step).seen) == batches
    for wrong in (seen, seen[:-2]):
        with pytest.raises(RunStopped, match="as many processes as it began with"):
            resumed(wrong, step, rows=10, args=sizes, steps=step)
    if step * accumulated % cycle:
        with pytest.raises(RunStopped):  # the run would go on inside a cycle
            resumed(seen[:-1], step, rows=10, args=sizes, steps=step + 1)


def test_rows_alike_have_the_same_label():
    rows = [{"problem": "x" * n, "source": "a", "level": "1"} for n in range(1, 10)]
    rows += [{"problem": "x", "source": "b"}]
    found = labels(rows)
    assert len(set(found)) == 4
    assert len({each for each, row in zip(found, rows, strict=True) if row["source"] == "a"}) == 3
    assert found[0] == found[1] != found[8]


def test_the_layout_is_that_of_trls_sampler(monkeypatch):
    """trl still asks this method for its sampler, and lays batches out as ours does."""
    dataset = Dataset.from_list([{"prompt": str(i)} for i in range(7)])
    layout = RepeatSampler(dataset, mini_repeat_count=2, batch_size=3, repeat_count=4, shuffle=False)
    monkeypatch.setattr(GRPOTrainer, "_get_train_sampler", lambda self, dataset=None: layout)
    trainer = object.__new__(BySignal)
    trainer.order = order(["a"] * 7, batch=3)
    sampler = trainer._get_train_sampler(dataset)
    monkeypatch.setattr(trainer.order, "epoch", lambda: iter([[0, 1, 2], [3, 4, 5]]))
    assert isinstance(sampler, Drawn)
    assert list(sampler) == list(layout)
    assert len(sampler) == len(layout) == len(list(layout))


# Real runs ------------------------------------------------------------------------------------------------------------

STEPS, CUT = 9, 5
RUN = ["data.order=by signal", "data.validation=2", "sft=null", f"grpo.max_steps={STEPS}", "grpo.save_steps=1"]
RUN += ["grpo.save_total_limit=20", "grpo.num_generations=4", "grpo.num_iterations=1"]
RUN += ["rewards.correct_answer={weight: 0.0}"]
RUN += ["rewards.format_tags={weight: 0.0}", "rewards.tests.varied_reward.by_level={weight: 1.0}"]
ONE = ["grpo.per_device_train_batch_size=8", "grpo.gradient_accumulation_steps=1"]
AHEAD = ["grpo.per_device_train_batch_size=8", "grpo.gradient_accumulation_steps=3", "grpo.steps_per_generation=1"]
TWICE = ["grpo.per_device_train_batch_size=4", "grpo.gradient_accumulation_steps=2", "grpo.num_iterations=2"]
TWICE += ["grpo.max_steps=18", "grpo.save_steps=2", "grpo.eval_steps=2", "evaluate.checkpoint_problems=1"]
TWO = ["grpo.per_device_train_batch_size=4", "grpo.gradient_accumulation_steps=1"]
CPU2 = {"launcher": TWO_PROCESSES, "OMP_NUM_THREADS": "1"}


def arguments(folder: Path, name: str, rows: int, *overrides: str) -> list[str]:
    made = [{"problem": f"What is {i} + 1?", "answer": i + 1, "level": LEVELS[i % 3]} for i in range(10, 12 + rows)]
    write_lines(folder / "few.jsonl", made)
    few = f"data.train=[{folder}/few.jsonl]"
    return ["recipes/tiny-arithmetic.yaml", few, f"output_dir={folder}/{name}", *RUN, *overrides]


def seen(run: Path, step: int) -> list[str]:
    state = json.loads((run / f"checkpoint-{step}/trainer_state.json").read_text())
    return state["stateful_callbacks"]["SignalOrder"]["attributes"]["seen"]


def rows_of(batches: list[str]) -> list[int]:
    return [int(each.split(":")[0]) for batch in batches for each in batch.split()]


def test_problems_that_are_all_alike_are_told():
    alike = str(order(labels([{"problem": "1 + 2", "source": "mine"}] * 8)))
    assert alike == "by signal, but all problems are of one source, level and length class: the first epoch is shuffled"


def test_a_run_that_is_cut_in_its_second_epoch_draws_the_same_problems(tmp_path):
    said = run_stage("grpo", *arguments(tmp_path, "whole", 8, *ONE)).stdout
    assert "order: by signal, from 3 classes of problems\n" in said
    whole, cut = tmp_path / "whole/grpo", tmp_path / "cut/grpo"
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    (cut / "summary.json").unlink()
    for step in range(CUT + 1, STEPS + 1):
        shutil.rmtree(cut / f"checkpoint-{step}")
    resumed = run_stage("grpo", *arguments(tmp_path, "cut", 8, *ONE))
    assert f"from {cut}/checkpoint-{CUT}" in resumed.stdout
    assert seen(cut, STEPS) == seen(whole, STEPS)
    assert same_weights(cut, whole)
    assert not same_weights(whole, whole / "checkpoint-1")
    batches = seen(whole, STEPS)
    assert len(batches) == STEPS
    assert sorted(rows_of(batches[:4])) == sorted(rows_of(batches[4:8])) == list(range(8))
    assert {each[-1] for batch in batches for each in batch.split()} == {"0", "1", "2"}


@pytest.mark.slow
@pytest.mark.parametrize("batch", [ONE, AHEAD, TWICE], ids=["one step", "drawn three ahead", "each batch twice"])
def test_killed_by_sigkill_it_draws_the_same_problems(batch, tmp_path):
    run_stage("grpo", *arguments(tmp_path, "whole", 10, *batch))
    whole, killed = tmp_path / "whole/grpo", tmp_path / "killed/grpo"
    command = [sys.executable, "-m", "stages.grpo", *arguments(tmp_path, "killed", 10, *batch)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(killed.glob("checkpoint-[456]/manifest.json")):
        assert process.poll() is None
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert not (killed / "summary.json").exists()
    assert "checkpoint-" in run_stage("grpo", *arguments(tmp_path, "killed", 10, *batch)).stdout
    last = max(int(each.name[11:]) for each in whole.glob("checkpoint-*"))
    assert seen(killed, last) == seen(whole, last)
    assert same_weights(killed / f"checkpoint-{last}", whole / f"checkpoint-{last}")
    assert len(seen(whole, last)) >= STEPS  # five an epoch


@pytest.mark.slow
def test_two_processes_draw_what_one_does(tmp_path):
    run_stage("grpo", *arguments(tmp_path, "one", 20, *ONE))
    run_stage("grpo", *arguments(tmp_path, "two", 20, *TWO), **CPU2)
    assert seen(tmp_path / "one/grpo", STEPS) == seen(tmp_path / "two/grpo", STEPS)
    assert len(set(rows_of(seen(tmp_path / "two/grpo", STEPS)))) == 2 * STEPS
