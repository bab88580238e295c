import json

import pytest

from tests.bench.sizes import FILE, SHAPES, table
from tests.support import ROOT


@pytest.mark.slow
def test_the_labs_table_of_memory_is_what_make_memory_estimates():
    there = json.loads((ROOT / FILE).read_text(encoding="utf-8"))
    assert there == table(list(SHAPES))


def test_a_critic_costs_most_where_all_weights_are_trained():
    for row in json.loads((ROOT / FILE).read_text(encoding="utf-8"))["sizes"].values():
        assert row["PPO, full"] > row["GRPO, full"] and row["PPO, LoRA"] > row["GRPO, LoRA"]
        assert row["GRPO, QLoRA"] < row["GRPO, LoRA"] < row["GRPO, full"]
