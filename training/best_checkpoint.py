"""Decides which checkpoint to keep and when to stop, by greedy accuracy on held-out problems, not by training reward.

A gamed reward keeps rising while answers get worse, and no training curve shows it. Every `grpo.eval_steps` steps the
policy answers `evaluate.checkpoint_problems` of the held-out problems; transformers keeps the best checkpoint and loads
it at the end.
"""

from transformers import TrainerCallback

from schema.configs import ACCURACY
from schema.terminal import say


class KeepBest(TrainerCallback):
    """Prints each evaluation, and stops the run when held-out accuracy has stayed below its best for `patience`
    evaluations in a row while the training reward rose. It reads the trainer's own history, which a resumed run
    still has."""

    def __init__(self, patience: int):
        self.patience = patience

    def on_evaluate(self, args, state, control, **kwargs):
        accuracies = [(line["step"], line[ACCURACY]) for line in state.log_history if line.get(ACCURACY) is not None]
        rewards = [(line["step"], line["reward"]) for line in state.log_history if line.get("reward") is not None]
        if not accuracies:
            return
        step, accuracy = accuracies[-1]
        best_step, best = max(accuracies, key=lambda each: (each[1], -each[0]))
        behind = f", best {best:.1%} at step {best_step}" if step != best_step else ""
        say(f"step {step}: held-out accuracy {accuracy:.1%}{behind}")
        if reason := hacked(accuracies, rewards, self.patience):
            control.should_training_stop = True
            say(reason)


def hacked(accuracies: list[tuple[int, float]], rewards: list[tuple[int, float]], patience: int) -> str | None:
    """The message to stop the run with, or None to carry on.

    Args:
        accuracies: (step, held-out accuracy) of every evaluation so far.
        rewards: (step, mean training reward) of every logged step so far.
    """
    best = max(accuracy for _, accuracy in accuracies)
    best_step = max(step for step, accuracy in accuracies if accuracy == best)
    since = [each for each in accuracies if each[0] > best_step]
    earlier = [reward for step, reward in rewards if step <= best_step]
    later = [reward for step, reward in rewards if step > best_step]
    if not 0 < patience <= len(since) or not earlier or not later:
        return None
    # As many logged steps as there are since the best, so that the slow start of a run does not count as a rise.
    before = earlier[-len(later) :]
    risen = sum(later) / len(later) - sum(before) / len(before)
    if risen <= 0:
        return None
    step, accuracy = since[-1]
    return (
        f"grpo: stopped at step {step}. Held-out accuracy has been below its best, {best:.1%} at step {best_step}, for "
        f"{len(since)} evaluations (now {accuracy:.1%}), while the training reward rose by {risen:.3g}: the policy is "
        "rewarded for something other than right answers. Read the newest file in completions/, and try "
        "`make audit`. evaluate.patience sets how many evaluations to wait for; 0 never stops."
    )
