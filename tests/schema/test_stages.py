"""The rows of the table of stages name what there is."""

from dataclasses import fields

import pytest

from schema import values
from schema.settings import Recipe
from schema.stages import CHAINS, STAGES
from stages import table
from tests.support import ROOT
from training import tiny_models


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_a_stage(stage):
    keys = {stage.name, *stage.depends_on} - {"algorithm"}  # of runs of an earlier version
    assert keys <= {each.name for each in fields(Recipe)}
    assert (ROOT / f"stages/{stage.name}.py").is_file()
    row = table.STAGES[stage.name]
    assert stage.name in row.chain and stage.name in row.checks
    assert ("evaluate --validation" in row.chain) == (stage.name in CHAINS)


def test_the_schema_knows_the_builders_of_models():
    assert set(values.BUILDERS) == set(tiny_models.BUILDERS)
