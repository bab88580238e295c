"""A reward by which nearly every group has a signal, whatever the policy says."""


def varied(completions, **columns):
    return [len(completion[0]["content"]) % 5 / 4 for completion in completions]


def by_level(completions, level, **columns):
    """What the data says, whatever the policy does: a group is all right, all wrong or mixed."""
    pays = {"right": (1.0, 1.0), "wrong": (0.0, 0.0), "mixed": (0.0, 1.0)}
    return [pays[each][i % 2] for i, each in enumerate(level)]


def again(completions, **columns):
    """`varied` of a text, which is what a step is."""
    return [len(completion) % 5 / 4 for completion in completions]


def of_nothing(completions, **columns):
    return [None] * len(completions)


def of_length(completions, **columns):
    return [len(completion) % 7 / 6 for completion in completions]


def machines(split):
    """The bandit by which GRPO is taught: ten arms, the digits. All machines are alike; trl wants several questions."""
    return [{"problem": f"Machine {i}: 0 to 9?", "solution": "8"} for i in range(12)]


def arms(completions, **columns):
    """Two peaks, 0.7 at 3 and 1.0 at 8, each with half of it beside; a completion of one token that is no digit earns
    nothing."""
    return [ARMS.get(completion[0]["content"].strip(), 0.0) for completion in completions]


ARMS = {"2": 0.35, "3": 0.7, "4": 0.35, "7": 0.5, "8": 1.0, "9": 0.5}
