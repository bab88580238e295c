"""A user's mistake in a recipe gets one clear message with its place, and exit code 2, before any
weight is loaded."""

import itertools
import re
import time
from pathlib import Path

import pytest

from console.faults import RecipeError
from console.terminal import make_command
from schema import training_rules
from schema.advice import warnings_of
from schema.configs import generation, setting, size_of_run
from schema.recipe import load_recipe, read_recipe
from schema.text import value_of
from tests.support import SHIPPED, run_stage
from tests.tables import cases

RECIPES = [Path(path) for path in SHIPPED]
assert len(RECIPES) >= 6

GOOD = """\
model: {build: tiny-qwen3}
data:
  train: [arithmetic]
rewards:
  correct_answer: {weight: 1.0}
grpo:
  max_steps: 2
  num_generations: 8
"""

# What stands behind the recipe, from its line 9 on, and what is said of it.
AFTER = {
    "unseen letter": ("  be\u200bta: 0.1", "did you mean beta?"),
    "a folder that is a mapping": (
        "output_dir: {a: b}",
        "output_dir: expected the name of a folder",
    ),
    "bad value": ("  loss_type: dapoo", "did you mean dapo?"),
    "bad library value": ("  lr_scheduler_type: cosin", "did you mean cosine?"),
    "duplicate key": ("  max_steps: 3", "is set again, first in line 7"),
    "reserved key": ("  output_dir: there", "at the top of the recipe"),
    "token": ("  hub_token: hf_abc", "keep the token in the environment"),
    "upload": ("  push_to_hub: true", "a run uploads nothing"),
    "public upload": ("  log_completions_hub_repo: me/completions", "a run uploads nothing"),
    "remote code": ("  trust_remote_code: true", "never run"),
    "quantised without adapter": ("quantization: {load_in_4bit: true}", "add an `adapter` section"),
    "a section that is a list": ("evaluate: [1]", "evaluate: expected a mapping, got [1]"),
    "learning rate below 0": (
        "  learning_rate: -1e-5",
        "a number above 0 and at most 1, got -1e-05",
    ),
    "learning rate NaN": ("  learning_rate: .nan", "a number above 0 and at most 1, got nan"),
    "learning rate infinite": ("  learning_rate: .inf", "a number above 0 and at most 1, got inf"),
    "no tokens": ("  max_completion_length: 0", "from 1 to 1,048,576, got 0"),
    "nothing for tokens": (
        "  max_completion_length:",
        "has no value: give one, or leave the key out",
    ),
    "temperature 0": ("  temperature: 0", "a number from 0.01 to 10, got 0"),
    "top_p above 1": ("  top_p: 5", "a number above 0 and at most 1, got 5"),
    "beta below 0": ("  beta: -0.1", "a number from 0 to 10, got -0.1"),
    "save every 0 steps": ("  save_steps: 0", "from 1 up, got 0"),
    "accumulation 0": ("  gradient_accumulation_steps: 0", "from 1 to 65,536, got 0"),
    "batch 0": ("  per_device_train_batch_size: 0", "from 1 to 65,536, got 0"),
    "iterations 0": ("  num_iterations: 0", "from 1 to 1,000, got 0"),
    "tracker misspelt": ("  report_to: wanbd", "did you mean wandb?"),
    "trackers that send": (
        "  report_to: [wandb, tensorboard]",
        '(ARGS="grpo.report_to=[wandb,tensorboard]"); or',
    ),
    "tracker that sends": (
        "  report_to: wandb",
        "that (ARGS=grpo.report_to=wandb); or, if you wrote this file: make trust",
    ),
    "trackio on the Hub": ("  trackio_space_id: me/x", "a run uploads nothing"),
    "a loss of DPO misspelt": (
        "dpo: {loss_type: [sigmod]}",
        "dpo.loss_type: 'sigmod' is not one of",
    ),
    "a weight for no loss of DPO": (
        "dpo: {loss_weights: [1.0, 0.5]}",
        "Got 2 weights for 1 loss types",
    ),
    "a loss of DPO that is no list": (
        "dpo: {loss_type: sigmoid}",
        "got 'sigmoid'; write [sigmoid]",
    ),
    "a loss without smoothing": (
        "dpo: {loss_type: [exo_pair]}",
        "the loss exo_pair needs one above 0",
    ),
    "a sorted loss": (
        "dpo: {loss_type: [aot], use_weighting: true}",
        "the loss aot sorts its pairs",
    ),
    "another divergence": (
        "dpo: {loss_type: [sigmoid, apo_zero], f_divergence_type: forward_kl}",
        "apo_zero is for reverse_kl",
    ),
    "a key of GRPO in DPO": ("dpo: {num_generations: 8}", "unknown key dpo.num_generations"),
    "DPO that uploads": (
        "dpo: {push_to_hub: true}",
        "dpo.push_to_hub is not set here: a run uploads",
    ),
    "rank 0": ("adapter: {r: 0}", "from 1 to 4,096, got 0"),
    "one expert": ("adapter: {target_parameters: experts.down_proj}", "write [experts.down_proj]"),
    "experts by an expression": (
        "adapter: {target_parameters: [(a+)+$]}",
        "expected the name of a module such as",
    ),
    "experts with dropout": (
        "adapter: {target_parameters: [experts.down_proj], lora_dropout: 0.1}",
        "peft has none for adapter.target_parameters",
    ),
    "experts in vLLM": (
        "adapter: {target_parameters: [experts.down_proj]}\nevaluate: {engine: vllm}",
        "vLLM has not been tried with them",
    ),
    "half precision by its other name": (
        "  fp16: true",
        "set model.dtype: float16, which is enough",
    ),
    "yes": ("  gradient_checkpointing: no", "YAML 1.2 reads that as text"),
    "gone from trl": ("  max_prompt_length: 512", "trl has no limit on prompts any more"),
    "gone from transformers": ("  warmup_ratio: 0.1", "a number below 1 is a share"),
    "warm-up only": ("  warmup_steps: 2", "all 2 steps would be warm-up"),
    "schedule's words": ("  lr_scheduler_kwargs: {min_lr: 0}", "got an unexpected keyword"),
    "clip without meaning": ("  delta: 1.1", "must be above 1 + 0.2"),
    "sapo's word": ("  sapo_temperature_neg: 1.1", "only grpo.loss_type: sapo reads it"),
    "a target of nothing": (
        "  entropy_target: 1.5",
        "only grpo.use_adaptive_entropy: true reads it",
    ),
    "delta of sapo": ("  delta: 2.0\n  loss_type: sapo", "or luspo reads it; set that"),
    "scaled by itself": (
        "  scale_rewards: none\n  multi_objective_aggregation: normalize_then_sum",
        "leave it out",
    ),
    "vLLM's word": (
        "  generation_kwargs: {min_tokens: 3}",
        "an option of vLLM, but transformers samples",
    ),
    "expression": ("adapter: {target_modules: (a+)+$}", "expected a list that is not empty"),
    "another machine": ("  vllm_server_host: example.org", "sends the run to another machine"),
    "launcher's": ("  deepspeed: {zero: 3}", "name a launcher: ACCELERATE=ddp"),
    "list as a key": ("  [a]: 1", "a key that is itself a list"),
}
PAID = "correct_answer: {weight: 1.0}"
# What stands in place of a part of it, in which line that is wrong, and what is said.
INSTEAD = {
    "misspelt key": ("max_steps", "max_step", ":7:", "did you mean max_steps?"),
    "bad type": (
        "max_steps: 2",
        "max_steps: two",
        ":7:",
        "expected a whole number from 1 up, or -1, got 'two'",
    ),
    "unknown reward": ("correct_answer", "correct_answr", ":5:", "did you mean correct_answer?"),
    "the line of an argument": (
        PAID,
        "correct_answer:\n    strict: maybe",
        ":6:",
        "strict: expected true or false",
    ),
    "a longest in its line": (
        PAID,
        "brevity:\n    weight: 1\n    longest: 0",
        ":7:",
        "from 1 up, got 0",
    ),
    "columns of a made set": (
        "[arithmetic]",
        "[arithmetic: {columns: {a: b}}]",
        ":3:",
        "is for a file, a folder or a",
    ),
    "reward named like a key": ("correct_answer", "tools", ":5:", "unknown reward 'tools'"),
    "a reward that is an example now": (
        PAID,
        "judge: {model: m}",
        ":5:",
        "unknown reward 'judge': copy docs/examples/judge.py, trust the copy",
    ),
    "another's state": (
        PAID,
        "brevity: {longest: 9, trainer_state: 1}",
        ":5:",
        "the trainer gives it; leave it out",
    ),
    "unknown data set": ("[arithmetic]", "[arithmetik]", ":3:", "did you mean arithmetic?"),
    "indivisible batch": (
        "num_generations: 8",
        "num_generations: 3",
        ":8:",
        "take 2, 4, 8, or change the batch",
    ),
    "missing section": (
        "rewards:\n  correct_answer: {weight: 1.0}\n",
        "",
        "",
        "`rewards` is missing",
    ),
    "tab": ("  max_steps", "\tmax_steps", ":7:", "indented with spaces"),
    "unknown section": ("grpo:", "grpoo:", ":6:", "did you mean grpo?"),
    "code of Python": ("correct_answer:", "os.system:", ":5:", "there is no os.py in this folder"),
    "code of a package": (
        "[arithmetic]",
        "[torch.load]",
        ":3:",
        "there is no torch.py in this folder",
    ),
    "no model": ("{build: tiny-qwen3}", "{dtype: bfloat16}", ":1:", "exactly one of"),
    "unknown builder": ("tiny-qwen3", "tiny-qwen", ":1:", "did you mean tiny-qwen3?"),
    "reward argument": ("weight: 1.0", "weigth: 1.0", ":5:", "did you mean weight?"),
    "steps that are no text": (
        "{weight: 1.0}",
        "{weight: 1.0}\n  true_equations: {steps: 5}",
        ":6:",
        "the text between two steps",
    ),
    "steps of nothing": (
        "{weight: 1.0}",
        "{weight: 1.0}\n  true_equations: {steps: ''}",
        ":6:",
        "the text between two steps",
    ),
    "steps twice": (
        "{weight: 1.0}",
        "{weight: 1.0}\n  true_equations: {steps: x}\n  tag_count: {steps: x}",
        ":7:",
        "true_equations has `steps`",
    ),
    "steps alone": (
        "correct_answer: {weight: 1.0}",
        "true_equations: {steps: x}",
        ":4:",
        "only the steps have one",
    ),
    "steps of an answer": (
        "{weight: 1.0}",
        "{weight: 1.0, steps: x}\n  tag_count: {}",
        ":5:",
        "a step is no answer",
    ),
    "reward file": (
        "correct_answer:",
        "no_such_file.reward:",
        ":5:",
        "there is no no_such_file.py in",
    ),
    "where": (
        "[arithmetic]",
        "[arithmetic: {where: {}}]",
        ":3:",
        "expected a mapping such as {level: [4, 5]}, got {}",
    ),
    "where upside down": (
        "[arithmetic]",
        "[arithmetic: {where: {a: {min: 6, max: 4}}}]",
        ":3:",
        "`min` is above `max`",
    ),
    "where without a range": (
        "[arithmetic]",
        "[arithmetic: {where: {level: {least: 1}}}]",
        ":3:",
        "where: level: unknown key 'least'",
    ),
    "data argument": ("[arithmetic]", "[arithmetic: {digit: 2}]", ":3:", "did you mean digits?"),
    "a section that is a number": (
        "{build: tiny-qwen3}",
        "5",
        ":1:",
        "got 5: write model: {name_or_path: …}",
    ),
    "a key without its section": (
        "grpo:",
        "learning_rate: 1\ngrpo:",
        ":6:",
        "it is a key of a section: grpo.learning_rate",  # of those that the recipe has
    ),
    "a key that no section takes": (
        "grpo:",
        "pad_token: x\ngrpo:",
        ":6:",
        "'pad_token': set `model.chat_template`",
    ),
    "a key of the model": (
        "grpo:",
        "dtype: float32\ngrpo:",
        ":6:",
        "it is a key of a section: model.dtype",
    ),
    "another's name for a key": (
        "max_steps: 2",
        "lr: 2",
        ":7:",
        "grpo.lr does not exist: set learning_rate",
    ),
    "two models": (
        "{build: ",
        "{name_or_path: a/b, build: ",
        ":1:",
        "`build: null`, or `name_or_path: null`, takes",
    ),
    "no steps": ("max_steps: 2", "max_steps: 0", ":7:", "a whole number from 1 up, or -1, got 0"),
    "steps below 0": ("max_steps: 2", "max_steps: -5", ":7:", "got -5"),
    "attention misspelt": (
        "tiny-qwen3}",
        "tiny-qwen3, attn_implementation: flsh}",
        ":1:",
        "not one of",
    ),
    "a compiler": (
        "tiny-qwen3}",
        "tiny-qwen3, attn_implementation: flex_attention}",
        ":1:",
        "not one of eager, sdpa",
    ),
    "an argument that is trl's": (
        "tiny-qwen3}",
        "tiny-qwen3, chat_template_kwargs: {messages: x}}",
        ":1:",
        "'messages' is no argument of a template that a recipe may set",
    ),
    "an argument without a value": (
        "tiny-qwen3}",
        "tiny-qwen3, chat_template_kwargs: {x: [1]}}",
        ":1:",
        "x: expected a text",
    ),
    "float16 trained whole": (
        "tiny-qwen3}",
        "tiny-qwen3, dtype: float16}",
        ":1:",
        "add an `adapter` section",
    ),
    "float16 trained in part": (
        "{build: tiny-qwen3}",
        "{build: tiny-qwen3, dtype: float16}\nadapter: {modules_to_save: [lm_head]}",
        ":1:",
        "leave adapter.modules_to_save out, or",
    ),
    "a kernel": (
        "tiny-qwen3}",
        "tiny-qwen3, attn_implementation: a/b}",
        ":1:",
        "not one of eager, sdpa",
    ),
    "flash attention": (
        "tiny-qwen3}",
        "tiny-qwen3, attn_implementation: flash_attention_2}",
        ":1:",
        "needs the package",
    ),
    "worked below 0": ("  train:", "  worked: -4\n  train:", ":3:", "from 1 up, got -4"),
    "own solutions as a switch": (
        "  train:",
        "  own_solutions: true\n  train:",
        ":3:",
        "own_solutions: expected a mapping",
    ),
    "own solutions for no warm start": (
        "  train:",
        "  own_solutions: {}\n  train:",
        ":3:",
        "has no `sft` section",
    ),
    "pass rates as one number": (
        "  train:",
        "  pass_rate: 0.5\n  train:",
        ":3:",
        "lowest and the highest, each a number",
    ),
    "pass rates above 1": (
        "  train:",
        "  pass_rate: [10, 90]\n  train:",
        ":3:",
        "from 0 to 1, got 10",
    ),
    "pass rates the wrong way": (
        "  train:",
        "  pass_rate: [0.9, 0.1]\n  train:",
        ":3:",
        "the lowest first, got [0.9",
    ),
    "an order": (
        "  train:",
        "  order: easy first\n  train:",
        ":3:",
        "data.order does not exist: GRPO shuffles its problems; data.pass_rate chooses them",
    ),
    "weight NaN": ("weight: 1.0", "weight: .nan", ":5:", "a number from -1,000,000 to 1,000,000"),
    "weights 0": ("weight: 1.0", "weight: 0", ":4:", "nothing would be learned"),
    "no data": ("[arithmetic]", "[]", ":3:", "name at least one data set"),
    "nothing for data": ("[arithmetic]", "", ":3:", "data.train: expected a list, got None"),
    "digits in words": (
        "[arithmetic]",
        "[arithmetic: {digits: two}]",
        ":3:",
        "digits: expected a whole",
    ),
    "dtype as it was": ("{build", "{torch_dtype: bfloat16, build", ":1:", "set model.dtype"),
    "model is a file": (
        "{build: tiny-qwen3}",
        "{name_or_path: README.md}",
        ":1:",
        "README.md is a file",
    ),
    "model is nowhere": (
        "{build: tiny-qwen3}",
        "{name_or_path: recipes/nothere}",
        ":1:",
        "no folder",
    ),
    "alias": ("weight: 1.0", "weight: &w 1.0", ":5:", "write the value out"),
    "tag": ("max_steps: 2", "max_steps: !!int 2", ":7:", "a tag"),
    "through trl": (
        "correct_answer:",
        "trl.trainer.grpo_trainer.CommitScheduler:",
        ":5:",
        "no trl/trainer/grpo_trainer.py",
    ),
    "trl's private": (
        "correct_answer:",
        "trl.rewards.accuracy_rewards:",
        ":5:",
        "trl documents no such",
    ),
    "through ours": (
        "[arithmetic]",
        "[data.imports.find_spec: {name: this.x}]",
        ":3:",
        "data/__init__.py and data/imp",
    ),
    "a class of ours": (
        "correct_answer:",
        "training.scoring.GuardedReward:",
        ":5:",
        "not trusted training/__init__.py",
    ),
    "a private name": ("[arithmetic]", "[data.sources._read]", ":3:", "do not begin with _"),
    "main": ("correct_answer:", "__main__.main:", ":5:", "do not begin with _"),
    "Python's": ("correct_answer:", "builtins.exec:", ":5:", "there is no builtins.py"),
}
WRONG = {name: (f"{GOOD}{text}\n", ":9:", message) for name, (text, message) in AFTER.items()}
WRONG |= {
    name: (GOOD.replace(old, new), place, message)
    for name, (old, new, place, message) in INSTEAD.items()
}
WRONG |= {
    "quantised weights for vLLM": (
        GOOD + "  use_vllm: true\nadapter: {}\nquantization: {load_in_4bit: true}\n",
        ":9:",
        "vLLM cannot take the quantised weights",
    ),
    "save inside a cycle": (
        GOOD + "  steps_per_generation: 4\n  save_steps: 10\n",
        ":10:",
        "take a multiple of 4",
    ),
    "an update that ends inside a cycle": (
        GOOD.replace("grpo:", "grpo:\n  gradient_accumulation_steps: 2")
        + "  steps_per_generation: 3\n  save_steps: 3\n",
        ":7:",
        "take 1 or 3",
    ),
    "a cycle ends inside an update": (
        GOOD + "  gradient_accumulation_steps: 6\n  steps_per_generation: 2\n  num_iterations: 2\n",
        ":9:",
        "take 4 or 8",
    ),
    "an adapter as a number": (
        GOOD + "quantization: {load_in_4bit: true}\nadapter: 5\n",
        ":10:",
        "a mapping, got 5",
    ),
    "rewards that are a number": (
        GOOD.replace("\n  correct_answer: {weight: 1.0}", " 5") + "  eval_steps: 50\n",
        ":4:",
        "rewards: expected a mapping, got 5",
    ),
    "not a mapping": ("- one\n- two\n", "", "a recipe is a mapping"),
    "steps without end": (GOOD.replace("max_steps: 2", f"max_steps: {10**30}"), ":7:", "from 1 up"),
    "samples misspelt": (
        GOOD.replace("  train:", "  own_solutions: {sample: 4}\n  train:") + "sft: {}\n",
        ":3:",
        "did you mean samples?",
    ),
    "no problems": (
        GOOD.replace("  train:", "  own_solutions: {problems: 0}\n  train:") + "sft: {}\n",
        ":3:",
        "from 1 to 100,000, got 0",
    ),
    "worked twice": (
        GOOD.replace("  train:", "  own_solutions: {}\n  worked: 9\n  train:") + "sft: {}\n",
        ":4:",
        "data.own_solutions replaces",
    ),
    "an unknown tool": (
        "tools: [calculater]\n" + GOOD,
        ":1:",
        "one of calculator, python; did you mean calculator?",
    ),
    "a tool alone": (
        "tools: calculator\n" + GOOD,
        ":1:",
        "a list that is not empty, got 'calculator'; write [calc",
    ),
    "no tools": ("tools: []\n" + GOOD, ":1:", "tools: expected a list that is not empty"),
    "a tool with settings": (
        "tools: [calculator: {}]\n" + GOOD,
        ":1:",
        "{'calculator': {}} is not one of",
    ),
    "Python that runs": (
        "tools: [python]\n" + GOOD,
        ":1:",
        "to allow it, write python: {run_programs: true}",
    ),
    "Python that may not": (
        "tools: [python: {run_programs: false}]\n" + GOOD,
        ":1:",
        "to allow it, write python: {",
    ),
    "Python allowed by 1": (
        "tools: [python: {run_programs: 1}]\n" + GOOD,
        ":1:",
        "to allow it, write python: {",
    ),
    "a tool twice": (
        GOOD + "tools: [calculator, calculator]\n",
        ":9:",
        "tools: calculator is named twice",
    ),
    "tools and another trainer": (
        GOOD + "algorithm: rloo\ntools: [calculator]\n",
        ":9:",
        "RLOO has no loop of",
    ),
    "tools and masks": (
        GOOD + "  mask_truncated_completions: true\ntools: [calculator]\n",
        ":9:",
        "found no room",
    ),
    "tools by vLLM": (
        GOOD + "  use_vllm: true\ntools: [calculator]\n",
        ":9:",
        "vLLM has not been tried",
    ),
    "tools judged by vLLM": (
        GOOD + "tools: [calculator]\nevaluate: {engine: vllm}\n",
        ":10:",
        "evaluate.engine: with `tools` only transformers samples",
    ),
    "DPO of tools": (
        GOOD + "tools: [calculator]\ndpo: {}\n",
        ":10:",
        "dpo: it learns from answers of one turn",
    ),
    "own solutions with tools": (
        GOOD.replace("  train:", "  own_solutions: {}\n  train:")
        + "sft: {}\ntools: [calculator]\n",
        ":3:",
        "data.own_solutions: it learns from answers of one turn",
    ),
    "steps with tools": (
        GOOD.replace("  correct_answer:", '  sum_steps: {steps: ", "}\n  correct_answer:')
        + "tools: [calculator]\n",
        ":5:",
        "rewards.sum_steps: it learns from answers of one turn",
    ),
    "calls without tools": (
        GOOD + "  max_tool_calling_iterations: 2\n",
        ":9:",
        "only `tools` reads it; leave it out",
    ),
    "no calls": (
        GOOD + "  max_tool_calling_iterations: 0\ntools: [calculator]\n",
        ":9:",
        "from 1 to 1,000, got 0",
    ),
    "DPO without any": (
        GOOD + "  log_completions: false\ndpo: {}\n",
        ":10:",
        "DPO's pairs are the completions",
    ),
    "a KL in DPO's pairs": (
        GOOD + "  beta: 0.04\nalgorithm: rloo\ndpo: {}\n",
        ":11:",
        "advantages contain its KL",
    ),
    "DPO in place of GRPO": (
        GOOD[: GOOD.index("grpo:")] + "dpo: {}\n",
        "",
        "the section `grpo` is missing",
    ),
    "seed below 0": ("seed: -1\n" + GOOD, ":1:", "from 0 to"),
    "seed too large": (f"seed: {2**32}\n" + GOOD, ":1:", "from 0 to"),
    "schedule's lack": (
        GOOD + "  lr_scheduler_type: warmup_stable_decay\n",
        ":9:",
        "missing 1 required positional argument: 'num_decay_steps'",
    ),
    "a rate that rises": (
        GOOD + "  lr_scheduler_type: cosine_with_min_lr\n  lr_scheduler_kwargs: {min_lr: 0.1}\n",
        ":10:",
        "lr_scheduler_kwargs: the rate reaches 0.05",
    ),
    "steps that do not add up": (
        GOOD
        + "  lr_scheduler_type: warmup_stable_decay\n  lr_scheduler_kwargs: {num_decay_steps: 9}\n",
        ":10:",
        "lr_scheduler_kwargs: the rate reaches 1.16",
    ),
    "cispo alone": (GOOD + "  loss_type: cispo\n", "", "set it, to 1 or more (ScaleRL uses 5)"),
    "two widths": (
        GOOD + "adapter: {r: 4}\nquantization: {load_in_4bit: true, load_in_8bit: true}\n",
        ":10:",
        "set exactly one of",
    ),
    "writes elsewhere": (
        "output_dir: ../x\n" + GOOD,
        ":1:",
        "writes outside outputs/: only the command line may",
    ),
    "no folder's name": (
        'output_dir: "\\0x"\n' + GOOD,
        ":1:",
        "output_dir: expected the name of a folder",
    ),
    "circle": ("a: &a [*a]\n", ":1:", "write the value out"),
    "number as a key": (GOOD + "  3: 1\n", ":9:", "the key 3 is no name"),
    "nothing as a key": (GOOD + "  : 1\n", ":9:", "the key  is no name"),
    "deep": (GOOD + "  lr_scheduler_kwargs: " + "[" * 5000 + "\n", ":9:", "levels deep"),
    "half a character": (GOOD + '  loss_type: "\\ud800"\n', ":9:", "half of a character"),
    "thousands of digits": (
        GOOD + f"  beta: 0x{'f' * 5000}\n",
        "",
        "not valid YAML: Exceeds the limit (4300 digits)",
    ),
    "two documents": (GOOD + "---\na: 1\n", ":9:", "one YAML document"),
    "old YAML": ("%YAML 1.1\n---\n" + GOOD, ":2:", "one YAML document"),
    "a long path": (
        GOOD.replace("[arithmetic]", f"[{'a.' * 3000}b]"),
        ":3:",
        "at most 250 letters",
    ),
    "an argument of all data sets": (
        GOOD.replace("[arithmetic]", "[arithmetic: {limits: 5}]"),
        ":3:",
        "unknown argument 'limits'; did you mean limit?",
    ),
    "one set of two": (
        GOOD + "evaluate:\n  benchmarks:\n  - arithmetic: {digits: 2}\n  - arithmetic: {digits: 3,"
        " digit: 2}\n",
        ":12:",
        "unknown argument 'digit'; did you mean digits?",
    ),
    "one name of two": (
        GOOD + "evaluate:\n  benchmarks:\n  - arithmetic\n  - gsm9k\n",
        ":12:",
        "did you mean gsm8k?",
    ),
    "twice in one set": (
        GOOD.replace("[arithmetic]", "[arithmetic: {limit: 1, limit: 2}]"),
        ":3:",
        "data.train.arithmetic.limit is set again",
    ),
    "no limit": (
        GOOD.replace("[arithmetic]", "[arithmetic: {limit: 0}]"),
        ":3:",
        "limit: expected a whole number",
    ),
    "no weight": (
        GOOD.replace("[arithmetic]", "[arithmetic: {weight: 0}]"),
        ":3:",
        "weight: expected a number above",
    ),
    "a benchmark's weight": (
        GOOD + "evaluate:\n  benchmarks: [arithmetic: {weight: 2}]\n",
        ":10:",
        "'weight' is for data.train: leave it out here",
    ),
    "samples of what is learned": (
        GOOD.replace("[arithmetic]", "[arithmetic: {samples: 4}]"),
        ":3:",
        "'samples' is for evaluate.benchmarks: leave it out here",
    ),
    "columns of no use": (
        GOOD.replace("[arithmetic]", "[openai/gsm8k: {columns: {question: q}}]"),
        ":3:",
        "columns: it names problem, answer, reasoning, not 'question'",
    ),
    "one column for two things": (
        GOOD.replace("[arithmetic]", "[openai/gsm8k: {columns: {problem: q, answer: q}}]"),
        ":3:",
        "columns: problem and answer are both 'q'",
    ),
    "columns without names": (
        GOOD.replace("[arithmetic]", "[openai/gsm8k: {columns: {problem: 3}}]"),
        ":3:",
        "columns: expected a column's name, got 3",
    ),
    "two golds": (
        GOOD.replace("[arithmetic]", "[openai/gsm8k: {columns: {answer: a, solution: b}}]"),
        ":3:",
        "`answer` and `solution` are the same there",
    ),
    "no columns": (
        GOOD.replace("[arithmetic]", "[openai/gsm8k: {columns: q}]"),
        ":3:",
        "columns: expected a mapping, got 'q'",
    ),
    "no such file": (GOOD.replace("[arithmetic]", "[mine.csv]"), ":3:", "there is no such file"),
    "no data set of the Hub": (
        GOOD.replace("[arithmetic]", "[./a/b]"),
        ":3:",
        "no such file or folder, and it is no Hub id such as openai/gsm8k",
    ),
    "a stage's split": (
        GOOD.replace("[arithmetic]", "[arithmetic: {split: test}]"),
        ":3:",
        "'split' is not a recipe's to give",
    ),
    "a file's long path": (
        GOOD.replace("[arithmetic]", f"[{'a/' * 3000}b.jsonl]"),
        ":3:",
        "there is no such file",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_recipe_gets_one_message_with_its_place(name, tmp_path):
    text, place, message = WRONG[name]
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as error:
        load_recipe(path)
    lines = str(error.value).splitlines()
    assert len(lines) == 1, lines
    assert f"mine.yaml{place}" in lines[0]
    assert message in lines[0]


def test_a_name_with_its_ending_is_told_both_ways():
    with pytest.raises(RecipeError, match=r"RECIPE=m, or a path, as RECIPE=\./m\.yaml"):
        load_recipe("recipes/m.yaml.yaml")


def test_a_file_that_is_no_text_or_no_page_is_told_at_once(tmp_path):
    for content, message in (
        (b"model: \xe4\n", ":1: not UTF-8"),
        (b"a: 1\n" * 10**6, "has 5,000,000 bytes"),
    ):
        path = tmp_path / "mine.yaml"
        path.write_bytes(content)
        with pytest.raises(RecipeError, match=message):
            load_recipe(path)
    with pytest.raises(RecipeError, match="is not a file"):
        load_recipe(tmp_path)
    began = time.process_time()
    path.write_text(
        "a: &a [x]\n"
        + "".join(f"{c}: &{c} [*{b}, *{b}]\n" for b, c in itertools.pairwise("abcdefghijklm"))
    )
    with pytest.raises(
        RecipeError, match="write the value out"
    ):  # 39.6 s for eight levels of these, once
        load_recipe(path)
    assert time.process_time() - began < 1


def test_a_huge_batch_is_judged_at_once(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        GOOD.replace("num_generations: 8", "num_generations: 7")
        + "  gradient_accumulation_steps: 65536\n"
    )
    began = time.process_time()
    with pytest.raises(RecipeError, match="take 2, 4, 8, 16, 32, 64, 128, 256, or change"):
        load_recipe(path, ["grpo.per_device_train_batch_size=65536"], check=())
    assert time.process_time() - began < 5  # to count all divisors of 4 billion took minutes


def test_what_is_neither_a_data_set_nor_a_mapping_leaves_no_trace(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace("[arithmetic]", "[arithmetik, 1, [2], {}]"))
    recipe, faults = read_recipe(path, check=())
    assert recipe.data.train == []
    assert [fault.place.line for fault in faults] == [3] * 4
    assert "data.train: [2] is neither a name nor" in faults[2].message


@pytest.mark.parametrize(
    "arguments",
    [["recipes/no-such.yaml"], ["recipes/tiny-arithmetic.yaml", "grpo.learning_rat=1"]],
    ids=["missing file", "misspelt override"],
)
@pytest.mark.parametrize("module", ["preflight", "sft", "grpo", "evaluate", "merge"])
def test_exit_code_is_2_without_a_stack_trace(module, arguments):
    done = run_stage(module, *arguments, check=False)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stderr


@cases(__file__, "too_few_problems_to_compare_the_stages_are_told")
def test_too_few_problems_to_compare_the_stages_are_told(arguments, message):
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", arguments.split(), check=())
    told = [each.message for each in warnings_of(recipe)]
    assert [each.startswith(f"data.validation: {message}") for each in told] == (
        [True] if message else []
    )


@cases(__file__, "a_share_of_the_probability_that_nothing_reads_is_told")
def test_a_share_of_the_probability_that_nothing_reads_is_told(arguments, message):
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", [f"evaluate={arguments}"], check=())
    said = [
        each.message
        for each in warnings_of(recipe)
        if each.message.startswith("evaluate.top_p: greedy")
    ]
    assert bool(said) == message


def test_numbers_are_read_as_yaml_1_2_reads_them(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD + "  learning_rate: 1e-5\n")
    grpo = load_recipe(path, ["grpo.beta=4e-2"]).grpo
    assert grpo["learning_rate"] == 1e-5
    assert grpo["beta"] == 0.04


def test_an_override_of_a_dotted_reward_and_of_a_new_section(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    recipe = load_recipe(
        path,
        [
            (
                "rewards.trl.rewards.get_soft_overlong_punishment={max_completion_len: 64,"
                " soft_punish_cache: 16}"
            ),
            "rewards.trl.rewards.think_format_reward={}",
            "sft.max_steps=3",
            "evaluate.limit=5",
        ],
    )
    assert recipe.rewards["trl.rewards.get_soft_overlong_punishment"]["max_completion_len"] == 64
    assert recipe.sft == {"max_steps": 3}
    assert recipe.evaluate.limit == 5


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_shipped_recipe_is_thin_and_right(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 45
    top = re.match(r"(?:#.*\n)*", text)[0].splitlines()
    assert [line[:10].split()[1] for line in top[-3:]] == [
        "Run",
        "Needs",
        "Reaches",
    ]  # a line each: make recipes
    recipe = load_recipe(path)
    assert recipe.name == path.stem


@cases(__file__, "the_size_of_a_run")
def test_the_size_of_a_run(grpo, size, tmp_path):
    """Against trl's own rule: a batch is sampled every `steps_per_generation × num_iterations`
    micro-steps."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        GOOD.replace("  max_steps: 2\n  num_generations: 8\n", "").replace(
            "grpo:", f"grpo: {{{grpo}}}"
        )
    )
    assert size_of_run(load_recipe(path, check=())) == (size and tuple(size))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_no_shipped_recipe_restates_a_default_of_the_library(path):
    from dataclasses import fields

    from schema.configs import section_class

    completes_the_batch = {
        "num_generations",
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
    }
    own = value_of(path.read_text())
    base = load_recipe(path.with_name(own["base"])).resolved() if "base" in own else {}
    for section in ("sft", "grpo", "dpo", "adapter"):
        values, below = own.get(section) or {}, base.get(section) or {}
        defaults = {field.name: field.default for field in fields(section_class(section))}
        same = [
            key
            for key, value in values.items()
            if value == defaults[key] and key not in completes_the_batch
        ]
        same = [key for key in same if key not in below]  # there it undoes what the base has
        assert not same, f"{section}: {same} equal the library's default"
        assert not [key for key, value in values.items() if key in below and below[key] == value], (
            "as in its base"
        )


def test_the_next_command_names_the_recipe_its_overrides_and_the_launcher(tmp_path, monkeypatch):
    recipe = load_recipe(
        "recipes/qwen-math-lora.yaml", ["grpo.max_steps=3", "data.train=[gsm8k, math]"]
    )
    assert (
        make_command("evaluate", recipe)
        == "make evaluate RECIPE=qwen-math-lora ARGS=\"grpo.max_steps=3 'data.train=[gsm8k,"
        " math]'\""
    )
    assert make_command("grpo", load_recipe("recipes/tiny-arithmetic.yaml")) == "make grpo"
    monkeypatch.setenv("ACCELERATE", "ddp")
    monkeypatch.setenv("PROCESSES", "4")
    assert (
        make_command("grpo", load_recipe("recipes/tiny-arithmetic.yaml"))
        == "make grpo ACCELERATE=ddp PROCESSES=4"
    )
    monkeypatch.undo()
    (tmp_path / "mine.yaml").write_text(GOOD)
    assert (
        make_command("grpo", load_recipe(tmp_path / "mine.yaml"))
        == f"make grpo RECIPE={tmp_path}/mine.yaml"
    )


def test_the_default_of_save_steps_is_never_inside_a_cycle(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    for overrides, steps in (
        ([], 50),
        (["grpo.num_iterations=4"], 52),
        (["grpo.steps_per_generation=6"], 54),
    ):
        recipe = load_recipe(path, [*overrides, "grpo.per_device_train_batch_size=8"], check=())
        assert setting(recipe, "grpo", "save_steps") == steps


def test_after_whole_updates_a_cycle_has_ended_in_every_epoch():
    """Against the updates as transformers makes them, the last of an epoch being shorter. All else
    is refused."""
    for accumulated, steps, iterations in itertools.product(range(1, 7), range(1, 7), range(1, 4)):
        section = {"gradient_accumulation_steps": accumulated, "steps_per_generation": steps}
        section |= {"num_iterations": iterations, "per_device_train_batch_size": 8}
        cycle, whole = generation(section)[2:]
        inside = False
        for batches in range(3, 8):
            epoch = batches * cycle
            updates = [*range(accumulated, epoch, accumulated), epoch]
            ends = [n * epoch + each for n in range(3) for each in updates]
            inside |= any(end % cycle for end in ends[whole - 1 :: whole])
        refused = [
            keys
            for keys, _ in training_rules.check_grpo(section, {})
            if keys == ("gradient_accumulation_steps",)
        ]
        assert bool(refused) == inside, section
