"""The few things known about trl that its classes do not say; these tests notice when trl changes under them."""

import inspect
import re

import trl.trainer.grpo_trainer as upstream
from trl import GRPOTrainer

from stages.configs import CHOICES

SOURCE = inspect.getsource(upstream)


def test_the_losses_are_those_the_trainer_compares_with():
    compared = re.findall(r"loss_type (?:==|!=|in|not in) (\[[^\]]*\]|\"\w+\")", SOURCE)
    assert set(re.findall(r"\"(\w+)\"", " ".join(compared))) == set(CHOICES["grpo", "loss_type"])


def test_the_log_that_is_kept_off_the_screen_is_still_the_trainers():
    assert list(inspect.signature(GRPOTrainer.log).parameters) == ["self", "logs", "start_time"]
    assert "print_prompt_completions_sample(" in inspect.getsource(GRPOTrainer.log)
