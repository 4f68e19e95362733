"""A user-defined critic: named by its class, trained, and set beside SWEET-RL's; and SWEET-RL with another critic in the main job."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest

from colbench_gym.errors import ColBenchError
from colbench_gym.files import read_rows, write_json, write_rows
from sweetrl_agent import Critic, compare, train
from sweetrl_agent.algorithms import registry
from sweetrl_agent.algorithms.critics import CRITICS, hidden_for, open_critic
from sweetrl_agent.algorithms.own_critics import SPECS, CheckedCritic, register_critic
from sweetrl_agent.config.pipeline import stages_of
from sweetrl_agent.evaluation import main_job
from tests.sweetrl_agent.killed_runs import record_again

HERE = __name__
TINY = {
    "sft_dialogues": 64, "sft_epochs": 1, "sft_batch": 16, "tiny_hidden_size": 32, "tiny_layers": 1, "tiny_vocab_size": 600,
    "num_tasks": 4, "trajectories_per_task": 2, "sweet.num_states": 12, "sweet.num_candidates": 3, "eval_tasks": 3, "shown_dialogues": 2,
    "max_new_tokens": 12, "max_turns": 3, "min_best": 0.0, "generation_batch": 4, "sweet.critic_batch": 2, "sweet.critic_micro_batch": 2,
    "unseen_tasks": "", "sandbox": "embedded", "threads": 1,
}  # fmt: skip


class Brief(Critic):
    """Prefers short messages; its training counts the pairs."""

    title = "brevity"

    def __init__(self, weight: float = 1.0):
        self.weight, self.pairs = weight, None

    def train(self, run, folder):
        write_json(folder / "pairs.json", {"pairs": len(read_rows(run.path("outcome_pairs.jsonl")))})

    def load(self, run, folder):
        self.pairs = json.loads((folder / "pairs.json").read_text())["pairs"]

    def rank(self, messages, hidden, texts):
        assert self.pairs and hidden
        return [-self.weight * len(text) for text in texts]


class Blind:
    """Not derived from `Critic`, which its methods make it; has no training and sees nothing hidden."""

    uses_hidden, requires = False, ("pages",)

    def rank(self, messages, hidden, texts):
        return [len(hidden)] * len(texts)

    def dialogue_advantages(self, messages, hidden):
        return []


class Lost(Critic):
    pass


class Judge(Brief):
    pass


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """A run that has collected, where every first episode passes half of its tests: a model this small never does."""
    folder = tmp_path_factory.mktemp("own") / "run"
    for stage in ("sft", "collect"):
        assert train.main(["--stage", stage], {**TINY, "output": folder}) == 0
    rows = read_rows(folder / "trajectories.jsonl")
    write_rows(
        folder / "trajectories.jsonl",
        [{**row, "metrics": {**row["metrics"], "tests_passed": 0.5 * (row["episode"] == 0)}} for row in rows],
    )
    record_again(folder, "collect")
    return folder


def test_the_main_job_trains_with_it_and_resumes(collected, tmp_path, capsys):
    folder = Path(shutil.copytree(collected, tmp_path / "run"))
    given = {"critic": {"name": f"{HERE}:Brief", "weight": 2}, "output": folder}
    assert train.main([], {**TINY, **given}) == 0
    own = folder / "brief_weight_2"
    assert json.loads((own / "critic" / "pairs.json").read_text()) == {"pairs": 4}
    pairs = read_rows(own / "turn_pairs.jsonl")
    assert pairs and all(len(row["chosen"]) <= len(row["rejected"]) for row in pairs)
    assert (own / "policy" / "model.safetensors").exists() and not (folder / "policy").exists()
    results = json.loads((folder / "results.json").read_text())
    assert results["algorithm"] == "brief_weight_2" and results["hint_reading"]
    stages = [
        "sft",
        "collect",
        "pairs",
        "critic brief_weight_2",
        "candidates",
        "rank brief_weight_2",
        "actor brief_weight_2",
        "evaluate",
    ]
    assert list(results["seconds"]) == stages
    rows = read_rows(folder / "turn_advantages.jsonl")
    lengths = {(row["agent"], row["task_id"]): row["dialogue_history"] for row in read_rows(folder / "evaluation.jsonl")}
    for row in rows:
        said = [message["content"] for message in lengths[row["agent"], row["task_id"]] if message["role"] == "assistant"]
        assert row["advantages"] == [-2.0 * len(text) for text in said]
    capsys.readouterr()
    assert train.main([], {**TINY, "config": folder / "config.yaml", "output": folder}) == 0
    assert "rank brief_weight_2: done before" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"has other settings, .*algorithm: "):
        registry_run(folder, critic="sweet")


def test_a_dry_run_names_it_as_not_timed(tmp_path, capsys):
    given = {**TINY, "critic": f"{HERE}:Brief", "output": tmp_path / "run", "gpu": "H100-80GB"}
    assert train.main(["--dry_run"], given) == 0
    lines = capsys.readouterr().out.splitlines()
    for stage in ("critic brief", "rank brief"):
        assert f"not timed  {stage}: the critic 'brief' is a class of your own" in lines
        assert any(line.split() == [*stage.split(), "not", "timed"] for line in lines), "in the plan for the GPU too"
    assert any(line.startswith("in all") and line.endswith(", besides critic brief, rank brief") for line in lines)


def registry_run(folder, **changes):
    from sweetrl_agent.trainers.run import Run

    return Run(main_job.parse([], {**TINY, "output": folder, **changes}), is_dry=True)


def test_a_stage_is_named_without_its_critic(tmp_path, capsys):
    config = main_job.parse([], {**TINY, "critic": f"{HERE}:Brief", "stage": "rank"})
    assert config.run.stage == "rank brief"
    declared = stages_of(config.algorithm)
    assert declared["rank brief"].reads == ("candidates.jsonl", "trajectories.jsonl", "brief/critic/", "initial/")
    assert declared["critic brief"].is_distributed and declared["actor brief"].writes == ("brief/policy/",)
    assert stages_of(registry.ALGORITHMS["no_hidden"])["critic no_hidden"].is_distributed
    assert train.main([], {**TINY, "critic": f"{HERE}:Brief", "stage": "rank", "output": tmp_path / "run"}) == 2
    assert "Stage 'rank brief' needs the files of ['sft', 'collect', 'pairs', 'critic brief'" in capsys.readouterr().err


def test_a_comparison_has_it_among_algorithms_and_critics(collected, tmp_path):
    folder = tmp_path / "compare"
    named = f"{HERE}:Brief"
    shutil.copytree(collected, folder / "seed_0")
    given = {"algorithms": ["initial", named], "critics": ["untrained", named], "seeds": 1, "credit_tasks": 2}
    assert compare.main([], {**TINY, **given, "output": folder}) == 0
    results = json.loads((folder / "results.json").read_text())
    assert list(results["algorithms"]) == ["initial", "brief"] and list(results["credit_accuracy"]) == ["untrained", "brief"]
    assert "SWEET-RL, brevity" in (folder / "report.html").read_text()
    assert f"- {named}" in (folder / "config.yaml").read_text()
    assert compare.main([], {"config": folder / "config.yaml", "output": folder, "threads": 1, "dry_run": True}) == 0


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ("no_hiden", "`critic` must be one of .*, or 'package.module:Class', got 'no_hiden'. Did you mean 'no_hidden'?"),
        (f"{HERE}:Lost", f"`critic` must name a `Critic` of `sweetrl_agent`, got '{HERE}:Lost', which has no method 'rank'."),
        (f"{HERE}:Breif", "has no 'Breif'. Did you mean 'Brief'?"),
        (f"{HERE}:Judge", "needs a `name` that is an identifier and that no other critic or algorithm has, got 'judge'."),
        (f'{{"name": "{HERE}:Brief", "wait": 1}}', "The '.*:Brief' critic takes weight; got"),
        ('{"name": "no_hidden", "weight": 1}', "`critic` 'no_hidden' takes no arguments; its settings are flags"),
        ("nowhere:Brief", "`critic` names a module that does not exist: 'nowhere'."),
    ],
)
def test_each_wrong_critic_has_a_sentence(named, error, capsys, tmp_path):
    assert train.main([], {**TINY, "critic": named, "output": tmp_path / "run"}) == 2
    import re

    said = capsys.readouterr().err
    assert re.search(error.replace("?", r"\?").replace(" (", r" \("), said), said
    assert not (tmp_path / "run").exists()


def test_what_it_says_of_itself_is_kept(make_run):
    name = register_critic(f"{HERE}:Blind")
    kind = CRITICS[name]
    assert (name, kind.title, kind.train, kind.uses_hidden, kind.needs) == ("blind", "blind", None, False, {"pages"})
    assert hidden_for(make_run(), name, "secret") == ""
    with open_critic(make_run(), name) as critic:
        assert critic.rank([], "", ["a", "b"]) == [0.0, 0.0]
    registry.register_own_critic(f"{HERE}:Blind", "critics")
    with pytest.raises(ValueError, match="'blind' requires an environment with pages"):
        registry.refuse_missing([registry.ALGORITHMS[name]], {"snapshot"}, "there")


@pytest.mark.parametrize("critic", ["no_hidden", f"{HERE}:Brief", f'{{"name": "{HERE}:Brief", "weight": 2}}'])
def test_it_is_the_same_as_the_algorithm_of_its_name(critic):
    config, other = (main_job.parse([setting, critic]) for setting in ("--critic", "--algorithm"))
    assert config.settings() == other.settings() and config.algorithm.name == other.algorithm.name
    assert config.settings()["algorithm"] == critic and "critic" not in config.settings()


def test_its_settings_stand_under_its_name():
    config = main_job.parse([], {**TINY, "critic": f"{HERE}:Brief", "brief": {"critic_beta": 0.5}})
    assert config.algorithm.name == "brief" and config.algorithm.config.critic_beta == 0.5
    assert config.settings()["brief"]["critic_beta"] == 0.5


def test_it_crosses_to_other_processes():
    named = f'{{"name": "{HERE}:Brief", "weight": 3}}'
    config = main_job.parse([], {**TINY, "critic": named})
    sent = pickle.dumps(config)
    for table in (registry.ALGORITHMS, CRITICS, SPECS):
        del table["brief_weight_3"]
    again = pickle.loads(sent)
    assert again.algorithm.kind.title == "brevity" and again.settings() == config.settings()


class _Says:
    def __init__(self, scores):
        self.scores, self.asked = scores, []

    def rank(self, messages, hidden, texts):
        self.asked.append(list(texts))
        return self.scores

    def dialogue_advantages(self, messages, hidden):
        return self.scores


def test_scores_are_checked_and_equal_texts_score_equally():
    critic = _Says([1, 2.5])
    assert CheckedCritic(critic, "mine").rank([], "", ["a", "b", "a"]) == [1.0, 2.5, 1.0]
    assert critic.asked == [["a", "b"]]
    for wrong in ([1.0], [1.0, float("nan")], None, ["x", 1], 3):
        with pytest.raises(
            ColBenchError, match="`rank` of the critic 'mine' must return one finite number for each candidate, 2 in all"
        ):
            CheckedCritic(_Says(wrong), "mine").rank([], "", ["a", "b"])
    with pytest.raises(
        ColBenchError, match="`dialogue_advantages` of the critic 'mine' must return one finite number for each agent turn"
    ):
        CheckedCritic(_Says([1.0]), "mine").dialogue_advantages([], "")


def test_by_default_a_turns_advantage_is_its_score_alone():
    class Counts(Critic):
        def rank(self, messages, hidden, texts):
            return [len(messages) * 10.0 + len(texts)]

    roles = ("user", "assistant", "user", "assistant")
    assert Counts().dialogue_advantages([{"role": role, "content": "x"} for role in roles], "") == [11.0, 31.0]
