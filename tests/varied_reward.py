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


def by_turns(completions, **columns):
    """Whatever a completion says."""
    return [i % 2 for i in range(len(completions))]


def of_nothing(completions, **columns):
    return [None] * len(completions)


def of_length(completions, **columns):
    return [len(completion) % 7 / 6 for completion in completions]
