"""Rewards: pure functions that take completions and columns of the data set, and return one score
per completion."""

from rewards.brevity import brevity
from rewards.correct_answer import correct_answer
from rewards.format_tags import format_tags, tag_count
from rewards.language_consistency import language_consistency
from rewards.partial_credit import partial_credit
from rewards.sum_steps import sum_steps
from rewards.true_equations import true_equations

__all__ = [
    "brevity",
    "correct_answer",
    "format_tags",
    "language_consistency",
    "partial_credit",
    "sum_steps",
    "tag_count",
    "true_equations",
]
