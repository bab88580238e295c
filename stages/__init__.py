"""The stages: `python -m stages NAME …` runs the file stages/NAME.py. table.py lists them with
their options, cli.py reads the command line, and make.py does what a target of `make` does."""

import sys

import schema  # noqa: F401 - what libraries read when they are imported
from console.faults import end, on_signals

# While a stage is still importing, a signal ends it without a stack trace; afterwards stages.cli
# handles it. (Until `python -m` has found its module, argv has "-m" in the module's place.)
if sys.argv[0] == "-m":
    on_signals(end)
    # A job script of an earlier version would do nothing, and go on.
    for word in sys.orig_argv[1:4]:
        if word.startswith("stages."):
            name = word.removeprefix("stages.").replace("_", "-")
            print(f"-m {word}: write -m stages {name}", file=sys.stderr)
            sys.exit(2)
