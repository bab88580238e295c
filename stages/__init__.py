"""One file per `make` target, and beside them what they share: the recipe, the model, the run folder."""

import logging
import os
import signal
import sys

# Ctrl-C while a stage is still importing what it needs ends it, without a stack trace of that; stages.cli takes over.
# (While Python looks for the module it was told to run, argv has "-m" in its place.)
if sys.argv[0] == "-m":
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# Nothing leaves the machine unless a recipe asks for it, and forked data workers must not warn about tokenizers.
for name in ("HF_HUB_DISABLE_TELEMETRY", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# A progress bar belongs on a terminal; in a file or a pipe, the line a logging step is enough.
if not sys.stderr.isatty():
    os.environ.setdefault("TQDM_DISABLE", "1")
# It warns at import of a kernel that only matters for 4-bit inference on a CPU.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
