"""Rewards: pure functions from completions and columns of the data set to one score a completion."""

from rewards.format_tags import format_tags, tag_count
from rewards.language_consistency import language_consistency
from rewards.partial_credit import partial_credit

__all__ = ["format_tags", "language_consistency", "partial_credit", "tag_count"]
