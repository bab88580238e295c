"""A stage under FSDP on the processes of a CPU. accelerate shards on GPUs alone, so here it is told
that each process has one, whose name is `cpu`, and that gloo connects them. All else is done by
accelerate, transformers and trl.

    accelerate launch --config_file accelerate_configs/fsdp2.yaml -m tests.shards_on_cpu stages grpo
    recipes/x.yaml …
"""

import os
import runpy
import sys

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType

if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    PartialState._prepare_backend = lambda *args, **kwargs: ("gloo", DistributedType.MULTI_GPU)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
