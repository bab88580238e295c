"""A script of trl, which docs/migrate.md turns into a recipe, docs/examples/from_trl.yaml."""

from datasets import load_dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer
from trl.rewards import accuracy_reward

SYSTEM = r"Reason step by step, and put your final answer within \boxed{}."


def as_messages(row: dict) -> dict:
    """The prompt and the gold of a row of GSM8K."""
    system = {"role": "system", "content": SYSTEM}
    user = {"role": "user", "content": row["question"]}
    return {"prompt": [system, user], "solution": row["answer"].split("#### ")[1]}


def short(completions: list, **columns) -> list[float]:
    """1 for a completion below 1,500 characters."""
    return [float(len(completion[0]["content"]) < 1500) for completion in completions]


model = "Qwen/Qwen2.5-0.5B-Instruct"
data = load_dataset("openai/gsm8k", "main", split="train").map(as_messages)
args = GRPOConfig(
    "outputs/mine",
    learning_rate=1e-5,
    num_generations=8,
    max_completion_length=512,
    max_steps=200,
    per_device_train_batch_size=8,
    gradient_accumulation_steps=8,
)
adapter = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear")
if __name__ == "__main__":
    rewards = [accuracy_reward, short]
    trainer = GRPOTrainer(model, rewards, args, train_dataset=data, peft_config=adapter)
    trainer.train()
