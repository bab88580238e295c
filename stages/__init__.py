"""The stages: one file per `make` target, and their common command line in cli.py."""

import shlex
import sys

import schema  # noqa: F401 - what libraries read when they are imported
from console.faults import end, on_signals

SEVERAL = ("ARGS", "MODEL", "FILE", "RUN", "RUNS")  # options of `make` that hold several words


def split_options(arguments: list[str]) -> list[str]:
    """Split `ARGS=a 'b c'`, as the Makefile hands it on, into the words a and b c. A shell would
    run commands that stand in it, so none reads it. A model's name may begin with a dash, so it
    becomes `--model=-x`.

    Raises:
        ValueError: a quote is not closed.
    """
    words = []
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name == "MODEL":
            words += [f"--model={model}" for model in shlex.split(value)]
        elif name in SEVERAL:
            words += shlex.split(value)
        else:
            words.append(argument)
    return words


try:
    sys.argv[1:] = split_options(sys.argv[1:])
except ValueError as error:
    print(f"a quote in {', '.join(SEVERAL)} is not closed ({error})", file=sys.stderr)
    sys.exit(2)

# While a stage is still importing, a signal ends it without a stack trace; afterwards stages.cli
# handles it. (Until `python -m` has found its module, argv has "-m" in the module's place.)
if sys.argv[0] == "-m":
    on_signals(end)
