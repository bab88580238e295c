from training.completions import recorded


def test_trl_is_given_what_later_readers_need_and_the_reward_is_unchanged():
    written, seen = {}, {}

    def length(completions, completion_ids, solution, log_extra, problem):
        seen.update(solution=solution, problem=problem)
        return [float(len(each)) for each in completion_ids]

    reward = recorded(length, ends={2, 7})
    assert reward.__name__ == "length"  # by which trl names its column
    ids = [[5, 2], [5, 5, 5], [7], []]
    given = {"completions": [""] * 4, "problem": ["p"] * 4, "solution": ["1", 2, "x", "y"]}
    assert reward(completion_ids=ids, log_extra=written.__setitem__, **given) == [2.0, 3.0, 1.0, 0.0]
    assert written == {
        "gold": ["1", "2", "x", "y"],
        "tokens": [2, 3, 1, 0],
        "truncated": [False, True, False, True],
    }
    assert seen == {"solution": ["1", 2, "x", "y"], "problem": ["p"] * 4}
