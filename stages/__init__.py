"""The stages: one file per `make` target, and their common command line in cli.py."""

import signal
import sys

import schema  # noqa: F401 - what libraries read when they are imported

# While a stage is still importing, Ctrl-C ends it without a stack trace; afterwards stages.cli handles it. (As long as
# Python is looking for the module that it was told to run, argv has "-m" in that module's place.)
if sys.argv[0] == "-m":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
