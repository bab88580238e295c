"""A reward by which nearly every group has a signal, whatever the policy says."""


def varied(completions, **columns):
    return [len(completion[0]["content"]) % 5 / 4 for completion in completions]
