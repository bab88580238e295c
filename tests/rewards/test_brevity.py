from rewards import brevity, correct_answer
from tests.tables import cases

CORRECT, INCORRECT = (
    "<think>2+3=5</think><answer>5</answer>",
    "<think>2+3=6</think><answer>6</answer>",
)


@cases(__file__, "the_share_of_the_limit_that_a_correct_answer_leaves")
def test_the_share_of_the_limit_that_a_correct_answer_leaves(text, gold, tokens, reward):
    assert brevity([text], completion_ids=[[0] * tokens], solution=[gold], longest=64) == [reward]


def test_a_shorter_correct_answer_earns_more_and_sums_of_rewards_are_exact():
    rewards = brevity(
        [CORRECT] * 48, completion_ids=[[0] * n for n in range(48)], solution=["5"] * 48, longest=48
    )
    assert rewards == sorted(rewards, reverse=True) and len(set(rewards)) == 48
    assert all((256 * each).is_integer() for each in rewards)


def test_it_agrees_with_correct_answer_and_logs_nothing_itself():
    columns = {"solution": ["5", "5"], "problem": ["What is 2 + 3?"] * 2}
    logged = []
    columns |= {"log_metric": lambda name, value: logged.append(name)}
    paid = brevity([CORRECT, INCORRECT], completion_ids=[[0], [0]], longest=2, **columns)
    assert logged == [] and paid == [0.5, 0.0]
    assert correct_answer([CORRECT, INCORRECT], **columns) == [1.0, 0.0]


def test_no_column_of_the_data_is_an_argument_of_correct_answer():
    """Else the data could choose how it is judged."""
    columns = {"completion_ids": [[]], "solution": ["5"], "longest": 64}
    assert brevity([r"\boxed{5}"], **columns) == [1.0]
    assert brevity([r"\boxed{5}"], **columns, strict=[True]) == [1.0]
