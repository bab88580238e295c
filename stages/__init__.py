"""The stages: one file per `make` target, and their common command line in cli.py."""

import shlex
import sys

import schema  # noqa: F401 - what libraries read when they are imported
from console.faults import end, on_signals

SEVERAL = ("ARGS", "MODEL", "FILE", "RUN", "RUNS")  # options of `make` that hold several words


def parted(arguments: list[str]) -> list[str]:
    """A command line on which `ARGS=a 'b c'`, as the Makefile hands it on, is the words a and b c:
    no shell has read it, which would run what is in it. A model's name may begin with a dash, so it
    comes as `--model=-x`.

    Raises:
        ValueError: a quote is not closed.
    """
    found = []
    for each in arguments:
        name, _, words = each.partition("=")
        several = shlex.split(words) if name in SEVERAL else [each]
        found += [f"--model={word}" for word in several] if name == "MODEL" else several
    return found


try:
    sys.argv[1:] = parted(sys.argv[1:])
except ValueError as error:
    print(f"a quote in {', '.join(SEVERAL)} is not closed ({error})", file=sys.stderr)
    sys.exit(2)

# While a stage is still importing, a signal ends it without a stack trace; afterwards stages.cli
# handles it. (As long as Python is looking for the module that it was told to run, argv has "-m" in
# that module's place.)
if sys.argv[0] == "-m":
    on_signals(end)
