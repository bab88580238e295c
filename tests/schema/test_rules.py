"""The list of rules for several keys. What each refuses or advises is in test_recipe.yaml."""

from schema import rules
from schema.conditions import Values
from tests.tables import rows


def test_the_message_of_every_rule_can_be_written(monkeypatch):
    """A name that neither the values nor its condition have would fail on a user's mistake."""
    monkeypatch.setenv("WORLD_SIZE", "5")
    broken = set()
    for recipe in rows(__file__, "broken"):
        messages = [*rules.broken(recipe), *rules.broken(recipe, rules.WARN)]
        assert all("{" not in message for _, message in messages)
        for number, rule in enumerate(rules.RULES):
            if rule.key.split(".")[0] in recipe and rule.when(Values(recipe)):
                broken.add(number)
    unbroken = [rule for number, rule in enumerate(rules.RULES) if number not in broken]
    assert unbroken == []
