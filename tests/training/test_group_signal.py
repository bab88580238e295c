"""The share of groups without signal is counted right where float32 would not."""

from training.group_signal import METRIC, counted, without_signal


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


def test_it_is_logged_once_for_all_rewards():
    def first(completions, **columns):
        return [1.0, 1.0, None, None]

    def second(completions, **columns):
        return [0.0, 0.0, 1.0, 0.0]

    logged = []
    functions = counted([first, second], [1.0, 0.2], 2)
    assert [f.__name__ for f in functions] == ["first", "second"]
    for _ in range(2):
        values = [called(f, ["a", "a", "b", "b"], logged) for f in functions]
        assert values == [[1.0, 1.0, None, None], [0.0, 0.0, 1.0, 0.0]]
    assert logged == [(METRIC, 0.5)] * 2
    for f in functions:
        called(f, ["a", "b", "c", "d"], logged)  # held-out problems, one answer each
    assert len(logged) == 2


def called(function, prompts, logged):
    return function(prompts=prompts, completions=[""] * 4, log_metric=lambda *metric: logged.append(metric))
