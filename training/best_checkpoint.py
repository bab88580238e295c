"""Decides which checkpoint to keep and when to stop, by greedy accuracy on held-out problems, not by training reward.

A gamed reward keeps rising while answers get worse, and no training curve shows it. Every `grpo.eval_steps` steps the
policy answers `evaluate.checkpoint_problems` of the held-out problems; transformers keeps the best checkpoint and loads
it at the end.
"""

import functools
from collections.abc import Callable

from accelerate.utils import gather_object
from transformers import TrainerCallback

from schema.configs import ACCURACY
from schema.terminal import say
from training.gamed import gamed
from training.plateau import plateau

# The key, in the line of an evaluation, of a "1" or "0" for each problem, in the order of their texts.
RIGHT = "eval_right"


class KeepBest(TrainerCallback):
    """Prints each evaluation, and stops the run when held-out accuracy has stayed clearly below its best for
    `patience` evaluations in a row while the training reward rose; with `stop_when_flat` also when it no longer rises,
    which is otherwise said once. It reads the trainer's own history, which a resumed run still has, and adds to it
    which problems were right."""

    def __init__(self, patience: int, stop_when_flat: bool):
        self.patience, self.stop_when_flat = patience, stop_when_flat
        self.stopped: str | None = None  # why it stopped the run
        self.batch: list[tuple[str, float | None]] = []  # the last one's problems, and whether each was answered right
        self.right: dict[str, float | None] = {}

    def watching(self, correct_answer: Callable) -> Callable:
        """The reward function, whose verdicts this callback now sees."""

        @functools.wraps(correct_answer)
        def reward(problem, **columns):
            verdicts = correct_answer(problem=problem, **columns)
            self.batch = list(zip(problem, verdicts, strict=True))
            return verdicts

        return reward

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
        elif reason := self._flat(args, state, rewards):
            control.should_training_stop |= self.stop_when_flat
            self.stopped = reason if self.stop_when_flat else None
            say(reason)

    def _flat(self, args, state, rewards: list[tuple[int, float]]) -> str | None:
        """What to say of a run that is flat; None where it is not, or was told so before."""
        warmed_up = args.get_warmup_steps(state.max_steps)
        judged = [(line["step"], line[RIGHT]) for line in state.log_history if RIGHT in line]
        judged = [each for each in judged if each[0] > warmed_up]
        told = not self.stop_when_flat and any(plateau(judged[:n], rewards) for n in range(len(judged)))
        if told or not (reason := plateau(judged, rewards)):
            return None
        if self.stop_when_flat:
            return f"grpo: stopped at step {state.global_step}: {reason}. evaluate.stop_when_flat: false goes on"
        return (
            f"grpo: {reason}. More steps are unlikely to help. Where `no signal` is high, other problems or a higher "
            "learning_rate may; evaluate.stop_when_flat: true ends such a run here"
        )
