"""What came of a fault, and what has to."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.faults.arena import Arena

NOTHING = MappingProxyType({})


class Outcome(NamedTuple):
    """What came of a fault.

    Args:
        exit: the exit code of the run that met the fault: the one it was injected into or, where
            that one was killed, the next. None: it had not ended after `arena.PATIENCE` seconds.
        said: all that this run printed.
        weights: how those of the completed run compare with an uninterrupted run's: same, other,
            not finite, no.
        noted: anything else that was looked at, such as the files left behind.
    """

    exit: int | None
    said: str
    weights: str = ""
    noted: Mapping[str, object] = NOTHING

    def line(self, *texts: str) -> str:
        """The first line that has one of the texts, or an empty one."""
        found = (each for each in self.said.splitlines() if any(text in each for text in texts))
        return " ".join(next(found, "").split())[:160]

    def told(self, required: "Required") -> str:
        """The cell of the table: what was required is quoted from what was said, else the first
        error."""
        quoted = [line for text in required.says if (line := self.line(text))] or [
            self.line("Error")
        ]
        noted = [f"{what}: {value}" for what, value in self.noted.items()]
        weights = [f"{self.weights} weights"] if self.weights else []
        return "; ".join(
            [f"exit {self.exit}", *filter(None, dict.fromkeys(quoted)), *noted, *weights]
        )


class Required(NamedTuple):
    """What has to come of a fault; by default nothing: a run that ends as one that nothing happened
    to.

    Args:
        exit: the exit code; None requires none, where an outside program chooses it.
        says: texts that stand in what was said.
        weights: the same as an uninterrupted run's, or nothing where the run does not go on.
        noted: what was looked at, and how it has to be.
    """

    exit: int | None = 0
    says: tuple[str, ...] = ()
    weights: str = "same"
    noted: Mapping[str, object] = NOTHING

    def lacking(self, outcome: Outcome) -> list[str]:
        """The requirements that an outcome does not meet."""
        lacking = [] if self.exit in (None, outcome.exit) else [f"exit {self.exit}"]
        lacking += [f"says {text!r}" for text in self.says if text not in outcome.said]
        lacking += [
            f"{what}: {value}"
            for what, value in self.noted.items()
            if outcome.noted.get(what) != value
        ]
        if self.weights and outcome.weights != self.weights:
            lacking.append(f"{self.weights} weights")
        return lacking

    def __str__(self) -> str:
        """The cell of the table: what an outcome without any of it would lack."""
        return "; ".join(self.lacking(Outcome(None, "")))


class Fault(NamedTuple):
    name: str
    inject: Callable[["Arena"], Outcome]
    required: Required
