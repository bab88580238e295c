"""What stands in the way of a run, and what does not."""

import json
import os
import re
import shutil
from types import SimpleNamespace

import pytest
from ruamel.yaml import YAML

from console.faults import RunStopped
from data import hub
from runs import files, identity, state, writing
from runs.identity import BASE, data_of, find_run, not_probed
from runs.records import COMPLETION_KEYS, read_completions, validation_folder
from runs.state import RunState, recipe_of
from schema.configs import STEP, ZERO_VARIANCE
from schema.recipe import RecipeError, load_recipe
from tests.made_runs import change_json, replace_text, write_json
from tests.support import ROOT, refused, write_lines
from tests.tables import cases, lacking
from tests.waits import run_command
from training.model import adapter_settings

RECIPE = "recipes/tiny-arithmetic.yaml"
ALL_STAGES = ("--stages", "sft", "grpo", "evaluate")
ROWS = [{"problem": "1 + 1?", "solution": "2"}]


def read(folder, *overrides: str):
    return load_recipe(RECIPE, [f"output_dir={folder}", *overrides])


def conflict(recipe, stage: str):
    return identity.conflict(recipe, RunState.read(recipe.stage_dir(stage)))


def begin(recipe, stage: str, rows: list, sampled=(), data=None):
    writing.begin(find_run(recipe, stage), recipe, rows, sampled, data)


def begun(folder, stage: str, *overrides: str):
    """The recipe of a run that has a checkpoint."""
    recipe = read(folder, *overrides)
    begin(recipe, stage, ROWS)
    (folder / stage / "checkpoint-1").mkdir()
    return recipe


def test_a_start_that_trained_nothing_is_not_in_the_way(tmp_path):
    begin(read(tmp_path), "sft", ROWS)
    (tmp_path / "sft/metrics.jsonl").write_text('{"step": 1}\n')
    mended = read(tmp_path, "sft.learning_rate=1e-4")
    assert conflict(mended, "sft") is None
    begin(mended, "sft", [{"problem": "other", "solution": "2"}])
    saved = YAML(typ="safe").load((tmp_path / "sft/recipe.yaml").read_text())
    assert saved["sft"]["learning_rate"] == 1e-4
    assert not (tmp_path / "sft/metrics.jsonl").exists()
    (tmp_path / "sft/checkpoint-1").mkdir()
    fault = conflict(read(tmp_path, "sft.learning_rate=2e-4"), "sft")
    assert "sft.learning_rate: 0.0001 there, 0.0002 here" in fault.message


def test_the_saved_recipe_is_a_recipe(tmp_path):
    overrides = [f"output_dir={tmp_path}", "grpo.max_steps=3"]
    overrides += ["evaluate.samples=2", "evaluate.temperature=0.5"]
    recipe = load_recipe(RECIPE, overrides)
    begin(recipe, "grpo", ROWS)
    again = load_recipe(tmp_path / "grpo/recipe.yaml", overrides[:1])
    assert again.resolved() == recipe.resolved()
    text = (tmp_path / "grpo/recipe.yaml").read_text()
    assert "null" not in text and "\n  beta: 0.0\n" in text  # a default is shown


@pytest.mark.parametrize("name", ["\U0001f600", "数学", "a: b #c", 'it\'s "x"', "null"])
def test_a_run_is_found_whatever_its_folder_is_called(name, tmp_path):
    begun(tmp_path / "x", "grpo")
    folder = (tmp_path / "x").rename(tmp_path / name)
    recipe = recipe_of(folder / "grpo")
    assert recipe.output_dir == str(folder) and conflict(recipe, "grpo") is None


def test_a_run_tells_which_packages_and_which_commits_of_the_hub_it_had(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "revisions", {"someone/sums": "e53f048"})
    (tmp_path / "vllm-0.31.0.dist-info").mkdir()
    (tmp_path / "vllm-0.31.0.dist-info/METADATA").write_text("Name: vllm\nVersion: 0.31.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    begin(read(tmp_path), "sft", [])
    found = json.loads((tmp_path / "sft/versions.json").read_text())
    packages = found["packages"]
    assert found["revisions"] == {"someone/sums": "e53f048"}
    assert packages["vllm"] == "0.31.0"  # with no module there to import, which would take seconds
    assert {"math-verify", "bitsandbytes"} <= packages.keys()


def test_conflicts_of_both_stages_are_told_before_the_first_trains(tmp_path, monkeypatch):
    monkeypatch.setenv("MAKE_TARGET", "grpo")
    for stage in ("sft", "grpo"):
        begun(tmp_path, stage)
    message = refused("check", "--fast", RECIPE, f"output_dir={tmp_path}", "seed=7", *ALL_STAGES)
    names = [f"{tmp_path}/sft", f"{tmp_path}/grpo", "seed: 42 there, 7 here"]
    names.append(f'make grpo ARGS="seed=7 output_dir={tmp_path}-2"')
    assert lacking(names, message) == []


@cases(__file__, "changes")
def test_what_may_change_of_a_recipe_where_a_run_goes_on(stage, before, after, differs, tmp_path):
    begun(tmp_path, stage, *before)
    run = RunState.read(tmp_path / stage)
    for to_train in (False, True):
        fault = identity.conflict(read(tmp_path, *after), run, to_train)
        assert fault is None if differs is None else f"  {differs}" in fault.message


@cases(__file__, "earlier_recipes")
def test_a_recipe_of_an_earlier_version_is_compared_but_not_read(
    before, changes, differs, refused, tmp_path
):
    recipe = begun(tmp_path, "grpo", *before)
    for old, new in changes.items():
        replace_text(tmp_path / "grpo/recipe.yaml", old, new)
    fault = conflict(recipe, "grpo")
    assert [line for line in differs if f"  {line}" not in fault.message] == []
    assert differs or fault is None
    with pytest.raises(RecipeError) as error:
        recipe_of(tmp_path / "grpo")
    assert [text for text in refused if text not in str(error.value)] == []


def test_a_run_of_an_earlier_version_is_read_by_the_names_of_this_one(tmp_path):
    recipe = begun(tmp_path, "sft", OWN)
    folder = tmp_path / "sft"
    replace_text(folder / "recipe.yaml", "rejection_sampling:", "own_solutions:")
    (folder / "summary.json").write_text('{"own_solutions": {"completions": 8}}')
    (folder / "metrics.jsonl").write_text('{"step": 5, "groups_without_signal": 0.25}\n')
    (folder / "data.json").write_text('{"held_out": "a b"}')
    run = RunState.read(folder)
    assert run.summary == {"rejection_sampling": {"completions": 8}}
    assert run.metrics == [{"step": 5, ZERO_VARIANCE: 0.25}]
    assert run.data == {"validation": "a b"}
    assert conflict(recipe, "sft") is None
    (tmp_path / "eval/held-out").mkdir(parents=True)
    assert validation_folder(folder) == tmp_path / "eval/held-out"
    answers = tmp_path / "eval/held-out/sft.jsonl"
    write_lines(answers, [{}, dict.fromkeys(COMPLETION_KEYS) | {"response": "so 2"}])
    assert read_completions(answers)[1]["completion"] == "so 2"


OWN = "data.rejection_sampling={samples: 8}"


def test_solutions_that_were_sampled_anew_are_told(tmp_path):
    recipe = begun(tmp_path, "sft", OWN)
    begin(recipe, "sft", ROWS)  # as it was begun there
    with pytest.raises(RecipeError, match="or what a model sampled of them"):
        begin(recipe, "sft", ROWS, [["1 + 1?", "so", "2"]])


def test_a_refusal_says_how_the_data_has_changed(tmp_path):
    recipe = begun(tmp_path, "sft")
    (tmp_path / "sft/data.json").unlink()
    begin(recipe, "sft", ROWS, data=data_of(ROWS, []))
    more = [*ROWS, ROWS[0] | {"problem": "One more?"}]
    with pytest.raises(RecipeError, match=r"has changed \(1 problems added, 0 removed\)"):
        begin(recipe, "sft", more, data=data_of(more, []))


def test_a_run_is_read_whose_recipe_names_another_machine(tmp_path):
    """Which a recipe's file may not."""
    server = ["grpo.use_vllm=true", "grpo.vllm_mode=server", "grpo.vllm_server_host=10.0.0.1"]
    begun(tmp_path, "grpo", *server)
    assert recipe_of(tmp_path / "grpo").grpo["vllm_mode"] == "server"


def test_what_needs_a_probe_is_refused_without_one(tmp_path):
    def told(*overrides: str) -> str:
        return " ".join(map(str, not_probed(read(tmp_path, *overrides))))

    rate = "data.pass_rate=[0, 1]"
    assert told() == ""
    words = f"output_dir={tmp_path} 'data.pass_rate=[0, 1]'"
    names = [f"override {rate}", f'make probe ARGS="{words}"']
    assert lacking([*names, f'make sft ARGS="{words}"'], told(rate)) == []
    message = told(rate, "sft=null")
    assert lacking([names[0], f'make probe ARGS="{words} sft=null"'], message) == []
    assert "make sft" not in message
    words = [RECIPE, f"output_dir={tmp_path}", rate, *ALL_STAGES]
    assert "data.pass_rate needs the pass rates" in refused("check", "--fast", *words)
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe/pass_rates.jsonl").touch()
    assert told(rate) == ""


def test_a_place_that_cannot_be_written_is_told_first():
    message = refused("sft", RECIPE, "output_dir=/proc/x")
    assert message.startswith("\n/proc/x cannot be written or read (")
    assert len(message.strip().splitlines()) == 1


STATE = '{"best_model_checkpoint": null, "global_step": 1, "epoch": 0.00125}'


def whole(folder, **contents):
    folder.mkdir(exist_ok=True)
    for name, text in contents.items():
        (folder / f"{name}.json").write_text(text)
    hashes = {}
    for file in state.files_of(folder):
        hashes[file.name] = [file.stat().st_size, files.file_hash(file)]
    write_json(folder / "manifest.json", {"step": 1, "files": hashes})


def test_an_adapter_goes_on_the_base_that_it_was_trained_on_wherever_that_is(tmp_path):
    """The last name of a path is no evidence, nor is the beginning of a file."""
    base = tmp_path / "base"
    folder = tmp_path / "grpo"
    base.mkdir()
    (folder / "checkpoint-2").mkdir(parents=True)
    (base / "model.safetensors").write_bytes(b"\0" * 2**25 + b"1")
    hashes = {BASE: files.hash_of_model(base)}
    write_json(folder / "versions.json", {"sources": hashes})
    for adapter in (folder, folder / "checkpoint-2"):
        write_json(adapter / "adapter_config.json", {"base_model_name_or_path": str(base)})
    moved = shutil.copytree(base, tmp_path / "of another name")
    other = tmp_path / "two/base"
    other.mkdir(parents=True)
    (other / "model.safetensors").write_bytes(b"\0" * 2**25 + b"2")
    for adapter in (folder, folder / "checkpoint-2"):
        with pytest.raises(RecipeError, match=r"was trained on another base than the files that"):
            adapter_settings(read(tmp_path, f"model={{name_or_path: {other}}}"), adapter)
        with pytest.raises(RecipeError) as error:  # the folder holds no more than that
            adapter_settings(read(tmp_path, f"model={{name_or_path: {moved}}}"), adapter)
        assert "another base" not in str(error.value)


def test_weights_that_are_lost_or_exchanged_are_told_with_the_checkpoints_that_remain(tmp_path):
    folder = tmp_path / "grpo"
    folder.mkdir()
    (folder / "recipe.yaml").write_text("seed: 1\n")
    (folder / "model.safetensors").write_bytes(b"trained")
    write_json(folder / "config.json", {"rope_theta": 1})
    writing.finish(RunState(folder), {"steps": 2})
    RunState.read(folder).require_weights("make grpo")
    write_json(folder / "config.json", {"rope_theta": 2})
    with pytest.raises(RecipeError, match=r"finished, but config\.json is not the file"):
        RunState.read(folder).require_weights("make grpo")
    write_json(folder / "config.json", {"rope_theta": 1})
    os.utime(folder / "model.safetensors", (0, 0))  # a copy has another time
    RunState.read(folder).require_weights("make grpo")
    (folder / "model.safetensors").write_bytes(b"another")
    anew = (
        r"is not the file that was .* put it back, or delete \S+, and `make grpo` trains it again"
    )
    with pytest.raises(RecipeError, match=anew):
        RunState.read(folder).require_weights("make grpo")
    (folder / "model.safetensors").unlink()
    whole(folder / "checkpoint-1", trainer_state=STATE)
    whole(folder / "checkpoint-2", trainer_state=STATE)
    (folder / "checkpoint-3").mkdir()  # begun, and killed
    again = (
        r"model.safetensors is missing: .* `make grpo` goes on from .*checkpoint-2, checkpoint-1"
    )
    with pytest.raises(RecipeError, match=again):
        RunState.read(folder).require_weights("make grpo")
    write_json(folder / "summary.json", {"steps": 2})  # as runs once ended
    RunState.read(folder).require_weights("make grpo")


@cases(__file__, "manifests")
def test_a_checkpoint_that_is_not_as_it_was_written_is_told(manifest, fault, tmp_path):
    whole(tmp_path / "checkpoint-1", trainer_state=STATE)
    assert state.altered(tmp_path / "checkpoint-1") is None
    (tmp_path / "checkpoint-1/manifest.json").write_text(manifest)
    assert state.altered(tmp_path / "checkpoint-1") == fault


def test_a_run_that_an_older_version_sealed_is_read_and_resumed(tmp_path):
    recipe, folder = begun(tmp_path, "grpo"), tmp_path / "grpo"
    whole(folder / "checkpoint-1", trainer_state=STATE)
    (folder / "model.safetensors").write_bytes(b"trained")
    writing.finish(RunState(folder), {"steps": 1})
    for file in (folder / "checkpoint-1/manifest.json", folder / "summary.json"):
        change_json(file, seal="0" * 64)
    assert find_run(recipe, "grpo", to_train=True).finished
    (folder / "summary.json").unlink()
    assert find_run(recipe, "grpo", to_train=True).checkpoint == f"{folder}/checkpoint-1"


def test_a_checkpoint_that_was_copied_from_another_run_is_passed_over(tmp_path, capsys):
    for name, run in (("here", "a"), ("there", "b")):
        (tmp_path / name).mkdir()
        write_json(tmp_path / name / "versions.json", {"run": run})
        whole(tmp_path / name / "checkpoint-1", trainer_state=STATE)
        state.write_manifest(tmp_path / name / "checkpoint-1")
    shutil.copytree(tmp_path / "there/checkpoint-1", tmp_path / "here/checkpoint-2")
    assert state.newest_good(tmp_path / "here") == f"{tmp_path}/here/checkpoint-1"
    assert "checkpoint-2: it is of another run" in capsys.readouterr().out


@pytest.mark.parametrize("name", [".metadata", "pytorch_model_fsdp_0/.metadata"])
def test_a_hidden_file_that_is_read_is_of_the_checkpoint(name, tmp_path):
    checkpoint = tmp_path / "checkpoint-1"
    whole(checkpoint, trainer_state=STATE)
    (checkpoint / ".DS_Store").touch()
    assert state.altered(checkpoint) is None
    (checkpoint / name).parent.mkdir(exist_ok=True)
    (checkpoint / name).touch()
    assert state.altered(checkpoint) == f"{name} is not one of its files"
    assert checkpoint / name in state.files_of(checkpoint)


def test_a_checkpoint_has_a_number(tmp_path):
    for name in ("10", "9", "\u00b2", "\u0663", "1e3", ""):
        (tmp_path / f"checkpoint-{name}").mkdir()
    names = [folder.name for folder in state.checkpoints_of(tmp_path)]
    assert names == ["checkpoint-10", "checkpoint-9"]


TORN = ["", "{", "[]", "null"]


@pytest.mark.parametrize("text", TORN)
@pytest.mark.parametrize("name", ["summary.json", "data.json", "versions.json"])
def test_what_no_run_wrote_is_refused_in_one_message(name, text, tmp_path):
    recipe = begun(tmp_path, "grpo")
    file = tmp_path / "grpo" / name
    file.write_text(text)
    with pytest.raises(RecipeError) as error:
        find_run(recipe, "grpo")
    assert (
        lacking(
            [f"{file} is not what a run wrote (", "put it back, or delete it"], str(error.value)
        )
        == []
    )


def test_a_run_is_finished_once_its_weights_are_on_the_disk_and_only_with_them(
    tmp_path, monkeypatch
):
    recipe, folder = begun(tmp_path, "grpo"), tmp_path / "grpo"
    (folder / "model.safetensors").write_bytes(b"weights")
    on_disk = []
    monkeypatch.setattr(files, "sync", on_disk.append)
    monkeypatch.setattr(writing, "write_whole", lambda *_: on_disk.append("summary"))
    writing.finish(RunState(folder), {"steps": 1})
    assert on_disk.index(folder / "model.safetensors") < on_disk.index("summary")
    monkeypatch.undo()
    writing.finish(RunState(folder), {"steps": 1})
    assert find_run(recipe, "grpo").finished
    (folder / "model.safetensors").write_bytes(b"wei")  # torn
    with pytest.raises(RecipeError, match=r"safetensors is not the file that was .* or delete"):
        find_run(recipe, "grpo")


@pytest.mark.parametrize("text", [None, *TORN])
def test_checkpoints_without_their_recipe_are_not_resumed(text, tmp_path):
    recipe = begun(tmp_path, "grpo")
    file = tmp_path / "grpo/recipe.yaml"
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(RecipeError, match=r"is not what a run wrote|another recipe") as error:
        find_run(recipe, "grpo", to_train=True)
    message = str(error.value)
    assert re.search("move (.*/grpo|that run) away", message) and "elete" not in message


@pytest.mark.parametrize("name", ["data.json", "versions.json"])
def test_what_was_lost_of_a_run_is_said_and_written_anew(name, tmp_path, capsys):
    recipe, file = begun(tmp_path, "grpo"), tmp_path / "grpo" / name
    before = file.read_text()
    file.unlink()
    begin(recipe, "grpo", ROWS)
    assert f"{file} was lost: " in capsys.readouterr().out
    # A mark of the run that is lost with it is not made anew: no checkpoint would bear it.
    assert file.read_text() == re.sub(r',\s*"run": "\w+"', "", before)
    begin(recipe, "grpo", ROWS)
    assert " was lost: " not in capsys.readouterr().out
    with pytest.raises(RecipeError) as error:
        begin(recipe, "grpo", ROWS * 2)
    assert "began with 1 training problems, which are not these 2" in str(error.value)
    assert f"or move {tmp_path}/grpo away" in str(error.value)


def test_a_run_begins_where_git_is_not_installed(tmp_path, monkeypatch):
    """A downloaded archive on a slim system."""
    monkeypatch.setenv("PATH", str(tmp_path))
    begun(tmp_path, "sft")
    assert json.loads((tmp_path / "sft/versions.json").read_text())["commit"] == "unknown"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_is_asked_of_this_checkout_alone(tmp_path, monkeypatch):
    run_command(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    assert writing._git("rev-parse", "--show-toplevel").strip() in ("", str(ROOT))
    monkeypatch.setattr(writing, "ROOT", tmp_path / "archive")  # inside another's repository
    (tmp_path / "archive").mkdir()
    assert writing._git("rev-parse", "--show-toplevel") == ""


def test_other_versions_are_told_on_resume(tmp_path, capsys):
    recipe = begun(tmp_path, "sft")
    (tmp_path / "sft/checkpoint-1").rmdir()
    whole(tmp_path / "sft/checkpoint-1", trainer_state=STATE)
    file = tmp_path / "sft/versions.json"
    before = json.loads(file.read_text())
    begin(recipe, "sft", ROWS)
    assert "versions" not in capsys.readouterr().out
    now, before["packages"]["trl"] = before["packages"]["trl"], "0.1"
    commit, before["commit"] = before["commit"], "0ad"
    file.write_text(json.dumps(before))
    begin(recipe, "sft", ROWS)
    expected = f"their last digits: trl 0.1 → {now}, commit 0ad → {commit}\n"
    assert expected in capsys.readouterr().out


def test_a_run_of_an_earlier_version_has_its_batch_as_it_was_split(tmp_path):
    """And only the keys that its recipe set."""
    recipe = begun(tmp_path, "grpo", "grpo.beta=0.0", "grpo.eval_steps=10")
    file = tmp_path / "grpo/recipe.yaml"
    content = YAML(typ="safe").load(file.read_text())
    content["sft"] = recipe.sft
    content["grpo"] = recipe.grpo
    YAML().dump(content, file)
    batch = ["grpo.per_device_train_batch_size=16", "grpo.gradient_accumulation_steps=2"]
    validation = ["grpo.eval_steps=10", "grpo.loss_type=dapo"]
    assert conflict(read(tmp_path, *batch, *validation), "grpo") is None
    message = conflict(read(tmp_path, batch[0], *validation), "grpo").message
    assert "grpo.completions_per_step (per_device" in message and "32 there, 16 here" in message
    assert recipe_of(tmp_path / "grpo").grpo == recipe.grpo


@pytest.mark.parametrize("stage", ["sft", "grpo"])
def test_another_number_of_processes_needs_the_same_batch(stage, tmp_path):
    def on(processes: int, *overrides: str):
        return load_recipe(RECIPE, [f"output_dir={tmp_path}", *overrides], processes=processes)

    size, steps = f"{stage}.per_device_train_batch_size", f"{stage}.gradient_accumulation_steps"
    begin(on(2, f"{size}=64", f"{steps}=1"), stage, ROWS)
    folder = tmp_path / stage
    (folder / "checkpoint-1").mkdir()
    for processes, batch, accumulation in [(2, 64, 1), (1, 64, 1), (4, 16, 4), (8, 32, 2)]:
        assert conflict(on(processes, f"{size}={batch}", f"{steps}={accumulation}"), stage) is None
    told = conflict(on(4, f"{size}=32", f"{stage}.learning_rate=1e-3"), stage).message
    batch = f"  {stage}.{STEP[stage]} (per_device_train_batch_size × gradient_accumulation_steps)"
    assert f"{batch}: 64 there, 32 here" in told and f"  {stage}.learning_rate: " in told
    (folder / "summary.json").write_text('{"steps": 1}')
    for processes, batch in [(2, 64), (4, 64)]:
        assert conflict(on(processes, f"{size}={batch}", f"{steps}=1"), stage) is None
    assert conflict(on(4, f"{size}=32", f"{steps}=1"), stage)


def test_a_flipped_bit_of_a_large_file_is_noticed_whatever_its_time(tmp_path, monkeypatch):
    monkeypatch.setattr("runs.files.LARGE", 0)
    monkeypatch.setattr("runs.files.HASHES", tmp_path / "hashes.json")
    checkpoint = tmp_path / "checkpoint-1"
    checkpoint.mkdir()
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(b"0000")
    state.write_manifest(checkpoint)
    assert state.altered(checkpoint) is None
    files.hash_of_files([weights])  # which is remembered
    time = weights.stat().st_mtime_ns
    weights.write_bytes(b"0010")
    os.utime(weights, ns=(time, time))
    assert state.altered(checkpoint).startswith("model.safetensors is not the file")


def test_a_hash_that_cannot_be_remembered_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr("runs.files.LARGE", 0)
    monkeypatch.setattr("runs.files.HASHES", tmp_path / "file/hashes.json")
    (tmp_path / "file").write_text("not a folder, so that nothing is written in it")
    assert len(files.file_hash(tmp_path / "file")) == 64


def test_hashes_of_files_that_are_gone_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr("runs.files.LARGE", 0)
    monkeypatch.setattr("runs.files.HASHES", tmp_path / "hashes.json")
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("2")
    for name in ("one", "two", "one"):
        files.file_hash(tmp_path / name)
    assert len(json.loads((tmp_path / "hashes.json").read_text())) == 2
    (tmp_path / "one").unlink()
    (tmp_path / "two").write_text("3, which is longer")
    assert files.file_hash(tmp_path / "two") == files.sha256(tmp_path / "two")
    assert list(json.loads((tmp_path / "hashes.json").read_text())) == [f"{tmp_path}/two"]


@pytest.mark.parametrize(
    "saves, keep, chooses, at_once",
    [(6, 2, True, 4), (6, 2, False, 3), (2, 2, True, 2), (6, None, True, 6)],
)
def test_how_many_checkpoints_are_there_at_once(saves, keep, chooses, at_once):
    assert state.most_checkpoints(saves, keep, chooses) == at_once


def test_a_run_does_not_begin_if_its_checkpoints_will_not_fit(tmp_path, monkeypatch):
    """Those that are there already need no more room."""
    free = SimpleNamespace(free=10_000_000)
    monkeypatch.setattr(state.shutil, "disk_usage", lambda folder: free)
    state.require_room_for_all(tmp_path, 3, 3_000_000)
    with pytest.raises(RunStopped, match=r"4 of 3 MB are there at once, .* has 10 MB left"):
        state.require_room_for_all(tmp_path, 4, 3_000_000)
    (tmp_path / "checkpoint-5").mkdir()
    (tmp_path / "checkpoint-5/weights").write_bytes(bytes(2_000_000))
    state.require_room_for_all(tmp_path, 4, 3_000_000)
