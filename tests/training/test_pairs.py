"""Which completions of a run become pairs, and what trl's DPOTrainer is given of them."""

import inspect

import pandas as pd
import pytest
from trl import DPOTrainer
from trl.trainer.dpo_trainer import DataCollatorForPreference

from data.sources import DataError
from schema.recipe import load_recipe
from tests.made_runs import TABLE, chat
from training import trainer
from training.model import load_tokenizer
from training.rows import PreferencePair, preference_pairs, tokenise_pairs


def written(run, step: int, *groups: tuple[str, list[float]], cut: str = ""):
    """A file of completions: groups of (question, advantages). A completion is called by its
    question and place; the one called `cut` did not end by itself."""
    rows = []
    for question, advantages in groups:
        for place, advantage in enumerate(advantages):
            text = f"{question}{place}"
            row = {"step": step, "advantage": advantage, "truncated": text == cut}
            row |= {"prompt": [chat("user", question)], "completion": [chat("assistant", text)]}
            rows.append(row)
    (run / "completions").mkdir(exist_ok=True)
    pd.DataFrame(rows).to_parquet(run / TABLE.format(step))


def test_the_best_of_each_group_against_the_worst(tmp_path):
    written(tmp_path, 10, ("c", [0.0, 0.0, 0.0]), ("a", [2.0, 1.0, -3.0]))
    written(tmp_path, 5, ("a", [-1.0, 0.5, 0.5]), ("b", [0.1, 0.0, -0.1]), cut="a0")
    pairs, figures = preference_pairs(tmp_path, 3)
    assert [(each.problem, each.chosen, each.rejected) for each in pairs] == [
        ("a", "a1", "a0"),  # the first of the best two
        ("b", "b0", "b2"),
        ("a", "a0", "a2"),  # by step, and the same problem again, sampled at another
    ]
    assert [each.truncated for each in pairs] == [(False, True), (False, False), (False, False)]
    assert figures == {"completions": 12, "groups": 4, "pairs": 3}


def test_a_batch_that_was_used_twice_is_read_once(tmp_path):
    for step in (1, 2):
        written(tmp_path, step, ("a", [1.0, -1.0]))
    written(tmp_path, 3, ("a", [-1.0, 1.0]))
    pairs, figures = preference_pairs(tmp_path, 2)
    assert [each.chosen for each in pairs] == ["a0", "a1"]
    assert figures == {"completions": 4, "groups": 2, "pairs": 2}


def test_a_run_without_files_has_no_pairs(tmp_path):
    assert preference_pairs(tmp_path, 3) == ([], {"completions": 0, "groups": 0, "pairs": 0})


def test_rows_that_are_no_groups_are_refused(tmp_path):
    written(tmp_path, 5, ("a", [1.0, 0.0]), ("b", [1.0, 0.0]))
    with pytest.raises(DataError, match="rows 0 to 3 are not one group of a GRPO run"):
        preference_pairs(tmp_path, 4)


def test_what_the_policy_did_not_end_is_not_ended_for_it():
    tokenizer = load_tokenizer(load_recipe("recipes/tiny-arithmetic.yaml", check=()))
    asked = [{"role": "user", "content": "1 + 1?"}]
    pair = PreferencePair(asked, "2", "12", (False, True))
    (row,) = tokenise_pairs([pair], tokenizer, None)
    end, chosen, rejected = tokenizer.eos_token_id, row["chosen_ids"], row["rejected_ids"]
    assert (chosen[-1], chosen.count(end), rejected.count(end)) == (end, 1, 0)
    collated = DataCollatorForPreference(pad_token_id=tokenizer.pad_token_id)([row])
    assert collated["completion_mask"].sum(dim=1).tolist() == [len(chosen), len(rejected)]
    longest = len(row["prompt_ids"]) + max(len(chosen), len(rejected))
    assert tokenise_pairs([pair], tokenizer, longest) == [row]
    assert tokenise_pairs([pair], tokenizer, longest - 1) == []


def test_trl_still_prepares_its_rows_where_ours_are_left_alone():
    arguments = list(inspect.signature(DPOTrainer._prepare_dataset).parameters)
    assert arguments[:2] == ["self", "dataset"]
    source = inspect.getsource(DPOTrainer)
    assert source.count("train_dataset = self._prepare_dataset(train_dataset, ") == 1
    assert '"prompt_ids",' in source and '"chosen_ids",' in source and '"rejected_ids",' in source
    assert trainer.DPO.__mro__[1] is DPOTrainer
