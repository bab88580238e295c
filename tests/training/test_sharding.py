"""What is refused of runs that hold a model in parts; tests/stages/test_sharded.py trains them."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from console.faults import RecipeError
from tests.support import run_stage
from training.train import require_same_sharding

LAUNCHERS = {  # and a file of the checkpoints that each writes
    "DDP or one process": "optimizer.pt",
    "FSDP": "pytorch_model_fsdp.bin",
    "DeepSpeed": "latest",
}


@pytest.mark.parametrize("now", LAUNCHERS)
@pytest.mark.parametrize("began", LAUNCHERS)
def test_a_checkpoint_is_resumed_by_the_launcher_that_wrote_it(began, now, tmp_path):
    checkpoint = tmp_path / "grpo/checkpoint-4"
    checkpoint.mkdir(parents=True)
    (checkpoint / LAUNCHERS[began]).touch()
    is_enabled = {"is_fsdp_enabled": now == "FSDP", "is_deepspeed_enabled": now == "DeepSpeed"}
    reason = f"checkpoint-4 was written under {began}, and this is {now}.* as it began"
    with nullcontext() if began == now else pytest.raises(RecipeError, match=reason):
        require_same_sharding(SimpleNamespace(**is_enabled), str(checkpoint))


def test_fsdp_on_a_cpu_is_refused_before_a_weight_is_loaded(tmp_path):
    """As accelerate launches one of its processes. Without this, each would train with DDP, and no
    word of it."""
    launched = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    launched |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    launched |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
    given = ["recipes/tiny-arithmetic.yaml", f"output_dir={tmp_path}/run"]
    done = run_stage("sft", *given, check=False, **launched)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("accelerate has FSDP for GPUs alone")
    assert not (tmp_path / "run").exists()
