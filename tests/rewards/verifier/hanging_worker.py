"""A stand-in for rewards.verifier.worker whose every judgement holds the interpreter lock for minutes."""

import itertools

from rewards.verifier.worker import serve


def _hang(gold: str, answers: list[str], question: str | None) -> tuple[bool | None, str]:
    return any(itertools.repeat(False)), ""  # one C loop without end: no signal and no other thread gets in


if __name__ == "__main__":
    serve(_hang)
