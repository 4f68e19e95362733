"""`team:RUN+AGENT=POLICY` as a policy of `evaluate`: who speaks for whom, and what is refused."""

from __future__ import annotations

import pytest

from colbench_gym.files import read_rows
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.evaluate import main
from sweetrl_agent.evaluation import evaluation_job
from sweetrl_agent.evaluation.policy_loading import policy_inputs
from sweetrl_agent.trainers.run import Run

ROLES = ("generator", "verifier", "refiner")
SETTINGS = {
    "env": "ColBench-Team-v0", "env_kwargs": '{"roles": "generator,verifier,refiner"}', "tasks": "embedded:train[:10]", "test_tasks": "embedded:test[:3]",
    "unseen_tasks": "", "sandbox": "embedded", "threads": 1, "max_new_tokens": 6, "max_turns": 2, "generation_batch": 4, "seed": 5, "algorithm": "malt",
}  # fmt: skip
GAME = {
    **SETTINGS,
    "env": "tests.sweetrl_agent.team_games:Team-v0",
    "env_kwargs": "",
    "tasks": "seeds:0-9",
    "test_tasks": "seeds:10-12",
}


@pytest.fixture(scope="module")
def make_run(tiny_tokenizer, make_tiny_model, tmp_path_factory):
    """Function: seeds of the models by folder, settings -> folder of a run with them."""

    def make_it(seeds, **settings):
        folder = tmp_path_factory.mktemp("runs") / "run"
        Run(make_config({**SETTINGS, **settings, "output": str(folder)}))
        for name, seed in seeds.items():
            make_tiny_model(seed).save_pretrained(folder / name)
            tiny_tokenizer.save_pretrained(folder / name)
        return folder

    return make_it


@pytest.fixture(scope="module")
def runs(make_run):
    """A run of MALT with four models, and another whose verifier has the weights of the first one's initial policy."""
    one = make_run({"initial": 0, **{f"malt/{role}": number for number, role in enumerate(ROLES, 1)}})
    return one, make_run({"initial": 4, "malt/generator": 5, "malt/verifier": 0, "malt/refiner": 6})


def play(folder, *words, roles=ROLES):
    """Run the command; what each policy's agents said, by policy, episode and agent."""
    assert main([*words, "--output", str(folder), "--threads", "1"]) == 0
    said = {}
    for row in read_rows(folder / "evaluation.jsonl"):
        spoken = [message for message in row["dialogue_history"] if message["role"] == "assistant"]
        said.setdefault(row["agent"], []).append(
            {role: [message["content"] for message in spoken if message["agent"] == role] for role in roles}
        )
    return said


def test_a_named_agent_speaks_by_its_policy_and_the_others_by_the_runs(runs, tmp_path):
    one, two = runs
    named = {
        "whole": f"{one}:malt",
        "same": f"team:{one}:malt+verifier={one}",
        "untrained": f"team:{one}+verifier={one}:initial",
        "other": f"team:{one}+verifier={two}:malt",
        "two": f"team:{one}+verifier={two}+refiner={one}:initial",
        "alone": f"team:{one}:initial+verifier={one}",
        "initial": f"{one}:initial",
    }
    said = play(tmp_path / "e", *(f"{name}={text}" for name, text in named.items()))
    assert said["whole"] == said["same"]
    assert said["untrained"] == said["other"] != said["whole"], "of another run it is the policy of the same agent"

    def spoken(name, role):
        return [episode[role] for episode in said[name]]

    assert spoken("untrained", "generator") == spoken("whole", "generator") != spoken("initial", "generator")
    assert spoken("untrained", "verifier") != spoken("whole", "verifier")
    assert spoken("two", "verifier") == spoken("other", "verifier") and spoken("two", "refiner") != spoken("other", "refiner")
    assert spoken("alone", "generator") == spoken("initial", "generator")
    assert spoken("alone", "verifier") != spoken("initial", "verifier"), "one policy may speak for all others"


def test_an_agent_in_a_second_dialogue_speaks_by_its_policy(runs, tmp_path):
    """Of two critiques of a draft the first is the one that stands there alone, and a replaced verifier writes both."""
    one, two = runs
    words = [f"whole={one}:malt", f"other=team:{one}:malt+verifier={two}:malt"]
    once = play(tmp_path / "once", *words)
    passes = "--env_kwargs", '{"roles": "generator,verifier,refiner:2"}'
    twice = play(tmp_path / "twice", *words, *passes, roles=(*ROLES, "verifier#2", "refiner#2"))
    for name in ("whole", "other"):
        assert [[episode[role] for role in ROLES] for episode in twice[name]] == [[*episode.values()] for episode in once[name]]
        assert all(len(episode[role]) == 1 for episode in twice[name] for role in ("verifier#2", "refiner#2"))
    for role in ("verifier", "verifier#2"):
        assert all(a[role] != b[role] for a, b in zip(twice["whole"], twice["other"], strict=True))


def test_an_environment_that_names_no_agents_has_those_of_the_run(make_run, tiny_model_folder, tmp_path):
    untrained = {"model": str(tiny_model_folder), "sft_dialogues": 0, "system_prompt": ""}
    folder = make_run({f"malt/{role}": number for number, role in enumerate(ROLES, 1)}, **GAME, **untrained)
    said = play(tmp_path / "e", f"whole={folder}", f"other=team:{folder}+verifier={folder}:initial")
    whole, other = ([episode["verifier"] for episode in said[name]] for name in ("whole", "other"))
    assert whole != other


def test_the_name_and_the_files_of_a_team_are_those_of_its_policies(runs):
    one, two = runs
    (spec,) = evaluation_job.parse([f"team:{one}:malt+verifier={two}:malt"]).policies
    assert spec.name == "team:run/malt+verifier=run/malt"
    assert {str(one / "malt"), str(two / "malt")} <= {name.rstrip("/") for name in policy_inputs(spec)}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["team:{0}"], "`policies`: a team is a run and the policies of other agents, each named once, as in team:runs/malt+verifier=runs/malt:initial, got "),
        (["team:{0}+{1}"], "`policies`: a team is a run and the policies"),
        (["team:{0}+verifier={1}+verifier={0}"], "`policies`: a team is a run and the policies"),
        (["team:{0}+verifier={1}x"], "`policies` names no folder: "),
        (["team:{0}+verifier=random"], "`policies`: the agents of a team or a mixture are run folders (RUN or RUN:ALGORITHM), model folders and hub names, and 'random' is"),
        (["team:{0}+verifier=module:Policy"], "and 'module:Policy' is none of these."),
        (["{0}:grpo"], "has no policy of 'grpo': 'grpo/agent' is missing. It has initial, malt."),
        (["collab:{0}:initial+{0}"], "is a team of generator, verifier, refiner, and a mixture takes single policies: name one's folder, such as "),
        (["team:{0}+checker={1}"], "names the agent 'checker', and ColBench-Team-v0 has generator, verifier, refiner: name one of these."),
        (["team:{0}:initial+verifier={1}", "--env_kwargs", '{{"roles": "interviewer,coder"}}'],
         "names the agent 'verifier', and ColBench-Team-v0 has interviewer, coder: name one of these."),
        (["team:{0}+coder={1}:initial", "--env_kwargs", '{{"roles": "interviewer,coder"}}'],
         "has policies of generator, verifier, refiner, and none of 'interviewer': name its policy, as in +interviewer="),
        (["team:{0}:initial+verifier={1}", "--env", "ColBench-Backend-v0", "--env_kwargs", ""],
         "`policies`: ColBench-Backend-v0 names no agents (attribute `agents`), so 'team:"),
    ],
)  # fmt: skip
def test_a_wrong_team_is_refused_in_one_sentence(runs, words, text, tmp_path, capsys):
    assert main([*(word.format(*runs) for word in words), "--output", str(tmp_path / "e")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and text in said and said.count("\n") == 1 and not (tmp_path / "e").exists()


def test_agents_that_are_sampled_otherwise_are_refused(runs, make_run, tmp_path, capsys):
    other = make_run({"initial": 0, **{f"malt/{role}": 1 for role in ROLES}}, temperature=0.5)
    words = [f"team:{runs[0]}+verifier={other}", "--output", str(tmp_path / "e")]
    assert main(words) == 2
    assert "error: Policies of run folders with different `temperature`, 0.8 in" in capsys.readouterr().err
    assert main([*words, "--temperature", "0.7", "--threads", "1"]) == 0
