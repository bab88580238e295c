"""What the verifier says."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the verifier says about a response. Read `.right`: the verdict itself is neither true nor false."""

    right: bool | None  # None if it cannot be judged: there is no gold, or none that can be read
    answer: str | None  # what the response gives as its answer; several are joined by "; "
    reason: str  # what decided, and for words or signs around an answer which of them
    timed_out: bool = False

    def __bool__(self) -> bool:
        raise TypeError("a Verdict is neither true nor false: read its .right, which is True, False or None")
