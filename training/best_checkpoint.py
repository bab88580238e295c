"""Decides which checkpoint to keep and when to stop, by greedy accuracy on held-out problems, not by training reward.

A gamed reward keeps rising while answers get worse, and no training curve shows it. Every `grpo.eval_steps` steps the
policy answers `evaluate.checkpoint_problems` of the held-out problems; transformers keeps the best checkpoint and loads
it at the end.
"""

from accelerate.utils import gather_object
from transformers import TrainerCallback

from schema.configs import ACCURACY, RIGHT
from schema.terminal import say
from training.scoring import Batch
from training.watch import gamed


class KeepBest(TrainerCallback):
    """Prints each evaluation, and stops the run when held-out accuracy has stayed clearly below its best for
    `patience` evaluations in a row while the training reward rose. It reads the trainer's own history, which a resumed
    run still has, and adds to it which problems were right."""

    def __init__(self, patience: int):
        self.patience = patience
        self.stopped: str | None = None  # why it stopped the run
        self.batch: list[tuple[str, float | None]] = []  # the last one's problems, and whether each was answered right
        self.right: dict[str, float | None] = {}

    def saw(self, batch: Batch):
        """Take note of a batch that was scored."""
        self.batch = list(zip(batch.columns["problem"], batch.rewards["correct_answer"], strict=True))

    def on_prediction_step(self, args, state, control, **kwargs):
        self.right.update(self.batch)  # trl called the rewards for this batch

    def on_log(self, args, state, control, logs=None, **kwargs):
        if ACCURACY in logs:
            everywhere = sorted(dict(gather_object(list(self.right.items()))).items())
            state.log_history[-1][RIGHT] = "".join(str(int(right or 0)) for _, right in everywhere)
            self.right.clear()

    def on_evaluate(self, args, state, control, **kwargs):
        accuracies = [(line["step"], line[ACCURACY]) for line in state.log_history if line.get(ACCURACY) is not None]
        rewards = [(line["step"], line["reward"]) for line in state.log_history if line.get("reward") is not None]
        if not accuracies:
            return
        step, accuracy = accuracies[-1]
        best_step, best = max(accuracies, key=lambda each: (each[1], -each[0]))
        behind = f", best {best:.1%} at step {best_step}" if step != best_step else ""
        say(f"step {step}: held-out accuracy {accuracy:.1%}{behind}")
        judged = [(line["step"], line[RIGHT]) for line in state.log_history if RIGHT in line]
        if reason := gamed(judged, rewards, self.patience):
            control.should_training_stop, self.stopped = True, reason
            say(reason)
