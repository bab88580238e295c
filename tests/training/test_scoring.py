"""What a run notes of each batch that its rewards score, and that the share of groups without signal is counted right
where float32 would not."""

import contextlib

from schema.configs import WITHOUT_SIGNAL
from training.scoring import GuardedReward, Scores, without_signal


def test_equal_rewards_that_float32_cannot_add_are_without_signal():
    assert without_signal([0.1 + 0.2] * 3 + [0.3], 4) == 1.0
    assert without_signal([0.3, 0.3, 1.0, 0.3, *[1.2] * 4], 4) == 0.5


def test_only_whole_groups_are_counted():
    # Of three groups of eight on two processes, the second one's first four completions end the middle group.
    earned = [1.0, 1.0, 1.0, 0.0, *[1.0] * 8]
    assert without_signal(earned, 8, first=12) == 1.0
    assert without_signal(earned, 8, first=0) == 0.0
    assert without_signal([1.0] * 4, 8) is None


def test_a_completion_that_nothing_judges_is_left_out():
    assert without_signal([1.0, None, 1.0, 1.0], 4) == 1.0


def test_a_batch_is_recorded_counted_timed_and_shown_once_for_all_its_rewards():
    def first(completions, **columns):
        return [1.0, 1.0, None, None]

    def second(completions, solution, **columns):
        assert solution == ["1", 2, "x", "y"]
        return [0.0, 0.0, 1.0, 0.0]

    rewards = [GuardedReward(each, each.__name__) for each in (first, second)]
    assert [each.__name__ for each in rewards] == ["first", "second"]  # by which trl names their columns
    scores, seen, timed = Scores(rewards, [1.0, 0.2], 2, ends={2, 7}), [], []
    scores.watchers.append(seen.append)
    scores.timed = contextlib.contextmanager(lambda: iter([timed.append(1)]))
    logged, written = [], {}
    columns = {"completions": [""] * 4, "completion_ids": [[5, 2], [5, 5, 5], [7], []], "solution": ["1", 2, "x", "y"]}
    columns |= {"log_metric": lambda *metric: logged.append(metric), "log_extra": written.__setitem__}

    def asked(prompts):
        return [each(prompts=prompts, **columns) for each in rewards]

    for _ in range(2):
        assert asked(["a", "a", "b", "b"]) == [[1.0, 1.0, None, None], [0.0, 0.0, 1.0, 0.0]]
    assert logged == [(WITHOUT_SIGNAL, 0.5)] * 2 and len(timed) == 4
    assert written == {"gold": ["1", "2", "x", "y"], "tokens": [2, 3, 1, 0], "truncated": [False, True, False, True]}
    assert [each.rewards["second"] for each in seen] == [[0.0, 0.0, 1.0, 0.0]] * 2
    assert seen[0].columns["completions"] == [""] * 4
    asked(["a", "b", "c", "d"])  # held-out problems, one answer each
    assert len(logged) == 2 and len(seen) == 3


def test_one_that_is_asked_about_steps_is_noted_for_whole_completions():
    reward, seen = GuardedReward(lambda completions, **columns: [float(len(each)) for each in completions], "mine"), []
    reward.by_step = lambda ask, completions, **columns: [sum(ask(completions=each.split())) for each in completions]
    scores = Scores([reward], [1.0], 2, ends=set())
    scores.watchers.append(seen.append)
    given = dict.fromkeys(("log_extra", "log_metric"), lambda *arguments: None)
    given |= {"prompts": ["a", "a"], "solution": ["1", "1"], "completion_ids": [[1], [2]]}
    assert reward(completions=["to be", "or"], **given) == [4.0, 2.0]
    assert seen[0].rewards == {"mine": [4.0, 2.0]} and seen[0].columns["completions"] == ["to be", "or"]
