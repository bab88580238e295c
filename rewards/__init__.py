"""Pure functions from text, and a gold answer where one is needed, to a score."""

from rewards.correct_answer import correct_answer

__all__ = ["correct_answer"]
