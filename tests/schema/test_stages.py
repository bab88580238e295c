"""The rows of the table of stages name what there is."""

import re
from dataclasses import fields

import pytest

from schema import values
from schema.settings import Recipe
from schema.stages import CHAIN, STAGES
from tests.support import ROOT
from training import tiny_models

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_a_stage(stage):
    keys = {stage.name, *stage.depends_on} - {"algorithm"}  # of runs of an earlier version
    assert keys <= {each.name for each in fields(Recipe)}
    assert (ROOT / f"stages/{stage.name}.py").is_file()
    target = re.search(rf"^{stage.name}: setup.*((?:\n\t.+)+)", MAKEFILE, re.M)[1]
    assert f"$(LAUNCH) stages.{stage.name} " in target
    assert ("stages.evaluate $(ASKED) --held-out" in target) == (stage.name == CHAIN)
    assert f"$(PREFLIGHT) {stage.name}" in target or f" {stage.name} evaluate\n" in target


def test_the_schema_knows_the_builders_of_models():
    assert set(values.BUILDERS) == set(tiny_models.BUILDERS)
