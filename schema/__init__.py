"""The strict recipe. Rooms that import the libraries import this one first: the environment settles
what these do."""

import logging
import os
import sys

# Nothing leaves the machine unless a recipe asks for it, and forked data workers must not warn
# about tokenizers.
for name in ("HF_HUB_DISABLE_TELEMETRY", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
# vLLM's sampler by flashinfer is compiled at its first call, and most machines lack the compiler,
# nvcc. Nothing here needs it.
SAMPLER = "VLLM_USE_FLASHINFER_SAMPLER"
os.environ.setdefault(SAMPLER, "0")
# Pictures are written to files. An invalid value of this variable would fail a run at its end.
os.environ["MPLBACKEND"] = "agg"
# A progress bar belongs on a terminal; in a file or a pipe, one line per logging step is enough.
if not sys.stderr.isatty():
    os.environ.setdefault("TQDM_DISABLE", "1")
# bitsandbytes warns at import about a kernel that only matters for 4-bit inference on a CPU.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
