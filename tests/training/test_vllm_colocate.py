"""GRPO with a LoRA adapter and a colocated vLLM, for real: on a CPU by `make test-vllm`, on a GPU
by `make test-gpu`.

vLLM's build for CPUs packs each linear layer's weight for oneDNN once and drops the parameter, so
that trl's syncs find nothing to load into. There that packing is switched off, and vLLM multiplies
with its own fallback, torch's `linear`. All else is the product's, trl's and vLLM's. A CPU has no
sleep mode either; on a GPU vLLM sleeps between its samplings.
"""

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from itertools import pairwise

import pytest
import torch

from machine.launch import on_this_machine
from schema.recipe import load_recipe
from schema.settings import training_config
from tests.support import GPU_TABLE, ROOT, WITH_VLLM, has_lines
from tests.waits import run_command, start_command, until
from training.model import load_tokenizer
from training.problem_sets import load_train, prompt_dataset
from training.trainer import grpo_trainer

pytestmark = WITH_VLLM
GPU = torch.cuda.is_available()
RECIPE = "recipes/tiny-arithmetic.yaml"
STEPS = 4
# How vLLM names what it computes at once.
TOGETHER = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}


def colocated(folder, output) -> list[str]:
    """What makes the recipe one that samples by a colocated vLLM."""
    keys = ["model.build=null", f"model.name_or_path={folder}", f"output_dir={output}"]
    keys += ["model.dtype=bfloat16", "adapter={r: 8, lora_alpha: 16, target_modules: all-linear}"]
    keys += ["rewards.tests.varied_reward.varied={weight: 1.0}"]
    keys += ["grpo.per_device_train_batch_size=32"]
    keys += ["grpo.learning_rate=0.02", "grpo.num_iterations=1", "grpo.logging_steps=1"]
    keys += ["grpo.use_vllm=true", "grpo.vllm_mode=colocate"]
    keys += ["grpo.vllm_max_model_length=256", "grpo.vllm_gpu_memory_utilization=0.1"]
    return [*keys, f"grpo.vllm_enable_sleep_mode={str(GPU).lower()}"]


class Run:
    """A few steps of training, and what was seen of it."""

    def __init__(self, folder, output):
        overrides = [*colocated(folder, output), f"grpo.max_steps={STEPS}"]
        recipe = load_recipe(RECIPE, overrides)
        tokenizer = load_tokenizer(recipe)
        self.end = tokenizer.eos_token_id
        args = training_config(on_this_machine(recipe), "grpo")
        args.save_strategy, args.num_generations_eval, args.per_device_eval_batch_size = "no", 1, 8
        rows, _ = load_train(recipe)
        self.trainer = grpo_trainer(recipe, args, tokenizer, rows, [], None)
        self.policy = self.trainer.accelerator.unwrap_model(self.trainer.model)
        self.vllm = self.trainer.vllm_generation
        runner = self.vllm.llm.llm_engine.model_executor.driver_worker.model_runner
        self.runner = type(runner).__module__  # V1's without Triton, on a GPU Model Runner V2's
        self.served = runner.model
        self.rows, self.system = rows, recipe.prompt.system
        self.prompts, self.completions, self.syncs, self.seconds = [], [], [], []
        self.base = self.base_weights()
        self.sync, generate = self.vllm.sync_weights, self.vllm.generate

        def seen_sync():
            began = time.monotonic()
            self.sync()
            self.seconds.append(time.monotonic() - began)
            self.syncs.append((self.merged(), snapshot(self.served)))

        def seen_generate(prompts, *args, **kwargs):
            answer = generate(prompts, *args, **kwargs)
            self.prompts += prompts
            self.completions += answer[1]
            return answer

        self.vllm.sync_weights, self.vllm.generate = seen_sync, seen_generate
        self.trainer.train()
        self.vllm.generate = generate

    def base_weights(self):
        weights = snapshot(self.policy)
        return {name: weights[name] for name in weights if "lora_" not in name}

    def merged(self):
        """The policy's weights with the adapter in them, by their names on disk."""
        self.policy.merge_adapter()
        weights = {}
        for name, weight in self.base_weights().items():
            on_disk = name.removeprefix("base_model.model.").replace(".base_layer", "")
            weights[on_disk] = weight
        self.policy.unmerge_adapter()
        return weights

    def logged(self, key):
        return [entry[key] for entry in self.trainer.state.log_history if key in entry]


def snapshot(model):
    return {name: each.detach().clone() for name, each in model.named_parameters()}


def as_served(merged, name):
    """What vLLM should have under its name."""
    for whole, parts in TOGETHER.items():
        if whole in name:
            return torch.cat([merged[name.replace(whole, part)] for part in parts])
    return merged[name]


@contextlib.contextmanager
def vllm_for_a_cpu():
    """With weights that can be synced, little memory, no compiling and one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more would wait for one another where other work takes a core
    with pytest.MonkeyPatch.context() as patch:
        # GiB, however much the tests before this one hold
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        patch.setenv("VLLM_CPU_CI_ENV", "1")
        from vllm import _custom_ops
        from vllm.model_executor.layers import utils

        patch.setattr(_custom_ops, "_supports_onednn", False)
        patch.setattr(utils, "check_cpu_sgl_kernel", lambda *_: False)
        patch.setattr(torch, "set_num_threads", torch.set_num_threads)  # which vLLM replaces
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def run(peaked_qwen2, tmp_path_factory):
    from vllm.distributed import cleanup_dist_env_and_memory

    before = dict(os.environ)
    with contextlib.nullcontext() if GPU else vllm_for_a_cpu():
        run = Run(peaked_qwen2, tmp_path_factory.mktemp("run"))
        GPU_TABLE["vLLM's model runner"] = run.runner
        GPU_TABLE["vLLM, a tiny Qwen2: seconds a sync"] = f"{statistics.median(run.seconds):.2f}"
        yield run
        run.vllm.llm.llm_engine.engine_core.shutdown()
        cleanup_dist_env_and_memory()
    os.environ.clear()
    os.environ.update(before)  # trl leaves a rank and a world's size there


def test_it_trains_and_syncs_at_every_step(run):
    assert run.trainer.state.global_step == len(run.syncs) == STEPS
    assert len(run.completions) == STEPS * 32


def test_an_answer_ends_with_its_turn(run):
    """Nothing follows the token that ends a turn, which is kept."""
    ended = [ids for ids in run.completions if run.end in ids]
    assert len(ended) >= 10
    assert all(ids.index(run.end) == len(ids) - 1 for ids in ended)


def test_without_the_stop_token_it_goes_on(run):
    """vLLM takes the ends of answers from the model's folder, not from the trainer's tokenizer:
    should it learn them, this test says so."""
    given, run.vllm.generation_kwargs = run.vllm.generation_kwargs, {}
    _, completions, *_ = run.vllm.generate(run.prompts, None, 1)
    run.vllm.generation_kwargs = given
    assert any(run.end in ids[:-1] for ids in completions)


def test_the_base_is_what_it_was(run):
    after = run.base_weights()
    assert all(torch.equal(run.base[name], each) for name, each in after.items())
    assert not GPU or all(copy.is_pinned() for copy, _ in run.policy.exact_base)


def test_vllm_has_the_merged_policy_after_every_sync(run):
    """To the bit; and each sync brought it another one."""
    for merged, served in run.syncs:
        for name, weight in served.items():
            expected = as_served(merged, name)
            assert torch.equal(weight[: len(expected)], expected), name  # vLLM pads the vocabulary
    for (_, earlier), (_, later) in pairwise(run.syncs):
        changed = {name for name in later if not torch.equal(later[name], earlier[name])}
        assert changed == {name for name in later if name.endswith("_proj.weight")}


def test_the_sampler_and_the_trainer_agree(run):
    """In bfloat16, at every step."""
    differences = run.logged("sampling/sampling_logp_difference/mean")
    print(f"mean differences of log-probabilities: {differences}")
    assert len(differences) == STEPS
    assert max(differences) < 0.05


@torch.inference_mode()
def test_it_is_the_adapted_policy_that_samples(run):
    """What vLLM says of its own tokens is near to the policy it was given last, and far from the
    base model."""
    run.sync()
    prompts = run.prompts[:32]
    _, completions, theirs, _ = run.vllm.generate(prompts, None, 1)
    device = run.policy.device

    def difference():
        found = []
        for prompt, completion, given in zip(prompts, completions, theirs, strict=True):
            ids = torch.tensor([prompt + completion], device=device)
            logits = run.policy(input_ids=ids).logits[0]
            said = torch.tensor(completion, device=device)[:, None]
            ours = logits[len(prompt) - 1 : -1].float().log_softmax(-1).gather(-1, said)
            found.append((ours.cpu() - torch.tensor(given)).abs())
        return torch.cat(found).mean().item()

    run.policy.merge_adapter()
    from_policy = difference()
    run.policy.unmerge_adapter()
    with run.policy.disable_adapter():
        from_base = difference()
    print(f"from the policy {from_policy:.3f}, from the base model {from_base:.3f}")
    assert from_policy < 0.05
    assert from_base > 0.2


def test_an_evaluation_while_training_is_greedy(run):
    """Twice the same answers."""
    answers, generate = [], run.vllm.generate

    def seen(*args, **kwargs):
        answer = generate(*args, **kwargs)
        answers.append(answer[1])
        return answer

    run.vllm.generate = seen
    problems = prompt_dataset(run.rows[:16], run.trainer.processing_class, run.system)
    for _ in range(2):
        run.trainer.evaluate(problems)
    run.vllm.generate = generate
    assert len(answers) == 4  # two batches each
    assert answers[:2] == answers[2:]


STAGE = """
import contextlib
from stages import cli, grpo
from tests.training.test_vllm_colocate import GPU, vllm_for_a_cpu
with contextlib.nullcontext() if GPU else vllm_for_a_cpu():
    cli.run("grpo", grpo.main)
"""


def test_a_stage_ends_without_a_traceback(peaked_qwen2, tmp_path):
    """Stopped by a signal, then resumed to its end: vLLM's process groups are inside the stage's
    own, and must go before it."""
    command = [sys.executable, "-c", STAGE, RECIPE, *colocated(peaked_qwen2, tmp_path), "sft=null"]
    command += ["grpo.max_steps=12"]
    # trl, of the run in this process
    leaves = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    environment = {key: value for key, value in os.environ.items() if key not in leaves}
    metrics = tmp_path / "grpo/metrics.jsonl"
    with (tmp_path / "stderr").open("w") as stderr:
        streams = {"stdout": subprocess.DEVNULL, "stderr": stderr}
        process = start_command(command, cwd=ROOT, env=environment, **streams)
        until(has_lines(metrics, 2), running=[process])
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 75
    assert "Traceback" not in (tmp_path / "stderr").read_text()
    done = run_command(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert "checkpoint-" in done.stdout and "grpo: done" in done.stdout


@pytest.mark.skipif(not GPU, reason="vLLM has no sleep mode on a CPU")
def test_it_gives_its_memory_back_when_it_sleeps(run):
    run.vllm.llm.wake_up()
    awake = torch.cuda.mem_get_info()[0]
    run.vllm.llm.sleep(level=2)
    asleep = torch.cuda.mem_get_info()[0]
    GPU_TABLE["vLLM asleep: GiB given back"] = f"{(asleep - awake) / 2**30:.1f}"
    assert asleep - awake > 2**28
    run.vllm._llm_weights_sleeping = True
