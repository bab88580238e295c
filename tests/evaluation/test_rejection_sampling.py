"""Which completions a warm start of the model's own making learns from, and what the model is
asked."""

from data import prompt
from evaluation import sample
from evaluation.completions import judged
from schema.recipe import load_recipe
from schema.sections import RejectionSampling
from tests.tables import cases
from training.model import load_tokenizer
from training.problem_sets import load_train

TINY = "recipes/tiny-arithmetic.yaml"
ROW = {"problem": "What is 1 + 1?", "solution": "2", "reasoning": "the data's own", "source": "x"}


def completion(response: str, truncated: bool) -> dict:
    judgement = judged([ROW], [response], strict=False)[0]
    return {"id": 0, "sample": 0, **judgement, "tokens": 9, "truncated": truncated}


@cases(__file__, "a_solution_is_correct_and_ended_by_itself_in_whatever_form")
def test_a_solution_is_correct_and_ended_by_itself_in_whatever_form(response, truncated, solution):
    found = sample.accept([completion(response, truncated)], [ROW])
    expected = [solution] if solution else []
    assert [[each["reasoning"], each["answer"]] for each in found] == expected


def test_few_are_kept_of_a_problem_and_none_twice():
    thoughts = [(1, "a"), (0, "1+1=2"), (0, "1+1 =\n2"), (0, "1 +  1 = 2"), (0, "1 + 1 = 2")]
    thoughts.append((0, "two"))
    solutions = [{"id": i, "reasoning": thought, "answer": "2"} for i, thought in thoughts]
    rows = [ROW, ROW | {"problem": "What is 0 + 2?"}]

    def kept(most: int) -> list[tuple]:
        rows_kept = sample.first_distinct(solutions, rows, most)
        return [(row["problem"], row["reasoning"]) for row in rows_kept]

    first, second = (row["problem"] for row in rows)
    assert kept(1) == [(second, "a"), (first, "1+1=2")]
    expected = [(second, "a"), *((first, each) for each in ("1+1=2", "1+1 =\n2", "1 +  1 = 2"))]
    assert kept(3) == expected
    assert len(kept(9)) == 5  # "1 +  1 = 2" and "1 + 1 = 2" are one
    wanted = ROW | {"reasoning": "1+1=2", "answer": "2"}
    assert sample.first_distinct(solutions, rows, 1)[1] == wanted


def recipe_of(folder, *overrides: str):
    return load_recipe(TINY, [f"output_dir={folder}", *overrides])


def test_the_base_model_is_asked_as_in_every_other_stage(tmp_path):
    """And judged by its answer alone, though the recipe pays only for one in its tags."""
    sampling = "data.rejection_sampling={problems: 5, samples: 3, temperature: 2}"
    given = [sampling, "prompt.system=Add."]
    recipe = recipe_of(tmp_path, *given, "rewards.correct_answer.strict=true")
    tokenizer, rows = load_tokenizer(recipe), load_train(recipe)[0]
    answers = sample.completions_to_learn_from(recipe, tokenizer, rows)
    conversations = [prompt.messages(row["problem"], "Add.") for row in answers.rows]
    assert answers.prompts == [prompt.prompt_ids(tokenizer, each) for each in conversations]
    assert len(answers.rows) == 5 and sum(map(len, answers.missing().values())) == 15
    expected = {"trained": None, "temperature": 2.0, "max_new_tokens": 48, "samples": 1}
    assert (expected | {"strict": False}).items() <= answers.settings.items()


def test_what_is_announced(tmp_path):
    recipe = recipe_of(tmp_path, "data.rejection_sampling={problems: 5}")
    sampled = "4 problems × 4 completions of the base model at temperature 1: at most 768 tokens"
    assert sample.announcement(recipe, [ROW] * 4) == f"rejection sampling: {sampled}"


def test_the_defaults_are_written_into_the_saved_recipe(tmp_path):
    recipe = recipe_of(tmp_path, "data.rejection_sampling={}")
    assert recipe.data.rejection_sampling == RejectionSampling()
    assert recipe.resolved()["data"]["rejection_sampling"] == vars(RejectionSampling())
    assert recipe_of(tmp_path).data.rejection_sampling is None
    none = ["data.rejection_sampling={keep: 1}", "data.rejection_sampling=null"]
    assert recipe_of(tmp_path, *none).data.rejection_sampling is None
