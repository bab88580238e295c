"""A reward by which nearly every group has a signal, whatever the policy says."""


def varied(completions, **columns):
    return [len(completion[0]["content"]) % 5 / 4 for completion in completions]


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


def of_size(completions, size, **columns):
    """Of a column that no data set has."""
    return [float(number) for number in size]
