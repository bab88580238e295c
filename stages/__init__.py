"""The stages: one file per `make` target, and their common command line in cli.py."""

import logging
import os
import signal
import sys

# While a stage is still importing, Ctrl-C ends it without a stack trace; afterwards stages.cli handles it. (As long as
# Python is looking for the module that it was told to run, argv has "-m" in that module's place.)
if sys.argv[0] == "-m":
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# Nothing leaves the machine unless a recipe asks for it, and forked data workers must not warn about tokenizers.
for name in ("HF_HUB_DISABLE_TELEMETRY", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# A progress bar belongs on a terminal; in a file or a pipe, one line per logging step is enough.
if not sys.stderr.isatty():
    os.environ.setdefault("TQDM_DISABLE", "1")
# bitsandbytes warns at import about a kernel that only matters for 4-bit inference on a CPU.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
