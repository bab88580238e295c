"""The list of rules for several keys. What each refuses or advises is in test_recipe.yaml."""

from schema import rules
from schema.conditions import Values
from tests.tables import rows


def test_the_message_of_every_rule_can_be_written():
    """A name that neither the values nor its condition have would fail on a user's mistake."""
    broken = set()
    for recipe in rows(__file__, "broken"):
        for level in (rules.REFUSE, rules.WARN):
            for _, message in rules.broken(recipe, level, processes=5):
                assert "{" not in message
        for number, rule in enumerate(rules.RULES):
            if rule.key.split(".")[0] in recipe and rule.when(Values(recipe, processes=5)):
                broken.add(number)
    unbroken = [rule for number, rule in enumerate(rules.RULES) if number not in broken]
    assert unbroken == []
