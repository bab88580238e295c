"""Writes a run's page while it trains."""

from dataclasses import replace

from transformers import TrainerCallback

from runs.state import RunState
from viewer import page


class WritePage(TrainerCallback):
    """Writes the page into a run's folder after each evaluation of the training."""

    def __init__(self, run: RunState):
        self.run = run

    def on_evaluate(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            page.write_beside(replace(self.run, logged=state.log_history))
