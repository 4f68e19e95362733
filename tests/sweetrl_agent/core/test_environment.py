"""Any text environment: what the trainer makes of it, what it refuses, and what a record adds."""

from __future__ import annotations

import gymnasium as gym
import pytest

from colbench_gym.errors import ColBenchError
from colbench_gym.files import write_rows
from sweetrl_agent import train
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.core import contract
from sweetrl_agent.core.dialogues import TextDialogue, TextDialogues
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.episode import Episode, EpisodeKey, Turn
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.envs.registry import RECORDS, find_record
from sweetrl_agent.rollouts.play import play
from sweetrl_agent.rollouts.scheduler import ServiceDownError
from sweetrl_agent.rollouts.trial import trial_of
from sweetrl_agent.trainers.run import Run
from sweetrl_agent.trainers.sft_stage import demonstrations

TEXT = gym.spaces.Text(max_length=1000, min_length=0)


class Echo(gym.Env):
    """Repeats what it is told; ends at "bye" with the number of words so far, fails at "fail"."""

    def __init__(self, fails=False, says=None):
        self.observation_space = self.action_space = TEXT
        self.fails, self.says = fails, says or {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.words = 0
        return f"seed {seed}", {}

    def step(self, action):
        if self.fails or action == "fail":
            raise ConnectionError("the server is away")
        self.words += len(action.split())
        is_over = action == "bye"
        return f"You said {action}.", float(self.words) if is_over else 0.0, is_over, False, self.says if is_over else {}


class Secret(Echo):
    hidden_information = "the word"


class Graded(EnvironmentRecord):
    metric = "grade"

    def demonstrations(self, tasks, count, seed):
        return [[{"role": "user", "content": task.id}, {"role": "assistant", "content": "bye"}] for task in tasks[:count]]


RECORD = Graded()
for name, kind in (("Echo-v0", Echo), ("Secret-v0", Secret)):
    if name not in gym.registry:
        gym.register(name, entry_point=kind, disable_env_checker=True)


def config(**settings):
    given = {
        "env": "Echo-v0",
        "tasks": "seeds:0-9",
        "test_tasks": "seeds:10-12",
        "unseen_tasks": "",
        "model": "hub/name",
        **settings,
    }
    return make_config(given)


class Says:
    """A policy that says one thing after the other in every dialogue."""

    def __init__(self, *words):
        self.words = words

    def generate(self, dialogues, seeds):
        return [Utterance(self.words[sum(m["role"] == "assistant" for m in dialogue)]) for dialogue in dialogues]


def played(policy, episodes, **settings):
    envs = EnvironmentRecord().environments(config(**settings), EnvironmentRecord().load_tasks("seeds:0-9", config().task), 2)
    try:
        return [t for shard in play(policy, envs, episodes, 0, "test") for t in shard]
    finally:
        envs.close()


def test_observations_are_the_users_side_and_actions_the_agents():
    first, second = played(Says("hello there", "bye"), [EpisodeKey("3"), EpisodeKey("5")])
    assert first.messages == [
        {"role": "user", "content": "seed 3"},
        {"role": "assistant", "content": "hello there"},
        {"role": "user", "content": "You said hello there."},
        {"role": "assistant", "content": "bye"},
    ]
    assert second.messages[0]["content"] == "seed 5"
    assert first.metrics == {"outcome": "ended", "success": 1, "return": 3.0, "answered": 1, "turns": 2}
    assert (first.reward, first.hidden, first.is_void) == (3.0, "", False)


def test_an_episode_is_cut_at_the_limit_of_turns():
    (cut,) = played(Says("a", "b", "c"), [EpisodeKey("0")], max_turns=2)
    assert cut.metrics == {"outcome": "cut", "success": 0, "return": 0.0, "answered": 0, "turns": 2}


def test_a_world_that_fails_voids_the_episode_and_stops_the_stage_where_it_goes_on():
    (void,) = played(Says("fail"), [EpisodeKey("0")])
    assert void.is_void and void.metrics == {"outcome": "void", "turns": 1}
    envs = EnvironmentRecord().environments(config(), EnvironmentRecord().load_tasks("seeds:0-9", config().task), 10)
    with pytest.raises(ServiceDownError, match="the server is away"):
        next(play(Says("fail"), envs, [EpisodeKey(str(task)) for task in range(10)], 0, "test"))


def test_hidden_information_is_the_environments_and_is_stored_with_the_episode():
    (episode,) = played(Says("bye"), [EpisodeKey("0")], env="Secret-v0")
    assert episode.hidden == "the word" == episode.to_row()["hidden_information"]
    assert "the word" not in str(episode.messages)


def test_metrics_and_messages_of_infos_are_used():
    said = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    dialogue = TextDialogue(
        Echo(says={"metrics": {"grade": 0.25}, "is_success": False, "messages": said}), {"0": 0}, "grade", 0
    )
    dialogue.reset(options={"task_id": "0"})
    dialogue.step("bye")
    assert dialogue.metrics == {"outcome": "ended", "success": 0, "return": 1.0, "grade": 0.25, "answered": 1, "turns": 1}
    assert dialogue.messages == said
    dialogue = TextDialogue(Echo(), {"0": 0}, "grade", 0)
    dialogue.reset(options={"task_id": "0"})
    with pytest.raises(TypeError, match="must contain the metric 'grade'"):
        dialogue.step("bye")


def test_an_episode_that_its_environment_declares_void_is_void():
    dialogue = TextDialogue(Echo(says={"metrics": {"outcome": "void"}}), {"0": 0}, "return", 0)
    dialogue.reset(options={"task_id": "0"})
    dialogue.step("bye")
    assert dialogue.metrics == {"outcome": "void", "turns": 1} and "reports that it failed" in str(dialogue.world_error)
    dialogue.env.unwrapped.world_error = ColBenchError("the sandbox")
    dialogue.reset(options={"task_id": "0"})
    dialogue.step("bye")
    assert str(dialogue.world_error) == "the sandbox"


def test_turns_of_agents_that_alternate_keep_their_order_where_infos_give_the_messages():
    class Two(Echo):
        """Says what each agent sees, with its own messages in capitals."""

        def reset(self, *, seed=None, options=None):
            self.seen, self.turns = {"a": [], "b": []}, 0
            return self.next("go")

        def step(self, action):
            self.seen["ab"[self.turns % 2]].append({"role": "assistant", "content": action.upper()})
            self.turns += 1
            observation, info = self.next(action)
            return observation, 0.0, self.turns == 4, False, info

        def next(self, text):
            agent = "ab"[self.turns % 2]
            self.seen[agent].append({"role": "user", "content": text})
            return text, {"agent": agent, "messages": list(self.seen[agent])}

    dialogue, said = TextDialogue(Two(), {"0": 0}, "return", 0), []
    dialogue.reset(options={"task_id": "0"})
    for text in ("a1", "b1", "a2", "b2"):
        before = [*dialogue.messages]
        dialogue.step(text)
        said.append((before, text))
    spoken = [m["content"] for m in dialogue.all_messages if m["role"] == "assistant"]
    assert spoken == ["A1", "B1", "A2", "b2"]  # the last info has the messages of the next agent
    turns = [Turn(text, agent=agent) for (_, text), agent in zip(said, "abab", strict=True)]
    episode = Episode("0", 0, dialogue.all_messages, turns, {"outcome": "ended"}, 0.0)
    for number, (before, text) in enumerate(said, 1):
        cut = episode.until(number, turns[number - 1]).view("ab"[(number - 1) % 2])
        assert cut.messages == [*before, {"role": "assistant", "content": text}] and len(cut.turns) == (number + 1) // 2


def test_threads_give_the_same_episodes():
    seeds = {str(i): i for i in range(4)}

    def episodes(waits):
        envs = TextDialogues([TextDialogue(Echo(), seeds, "return", 0) for _ in range(3)], waits)
        try:
            return [t for shard in play(Says("a b", "bye"), envs, [EpisodeKey(i) for i in seeds], 0, "test") for t in shard]
        finally:
            envs.close()

    assert episodes(True) == episodes(False)


@pytest.mark.parametrize(
    ("source", "ids"),
    [("seeds:3-5", ["3", "4", "5"]), ("seeds:0-9[:2]", ["0", "1"]), ("seeds:0-9[8:]", ["8", "9"]), ("seeds:7-7", ["7"])],
)
def test_tasks_are_named_by_their_seeds(source, ids):
    assert [task.id for task in EnvironmentRecord().load_tasks(source, config().task)] == ids


@pytest.mark.parametrize("source", ["", "embedded:train", "seeds:5-3", "seeds:0-999999999", "seeds:a-b", "seeds:0-9[1:2:3]"])
def test_other_names_of_tasks_are_refused(source):
    with pytest.raises(ValueError, match="^Tasks of Echo-v0 are given by seeds, such as 'seeds:0-999'"):
        EnvironmentRecord().load_tasks(source, config().task)


@pytest.mark.parametrize(
    ("env", "kwargs", "error"),
    [
        ("Nowhere-v0", "", r"`env` must be one of \('ColBench-Backend-v0', .* got 'Nowhere-v0'\.$"),
        ("no_such_package.envs:Mine-v0", "", "`env` 'no_such_package.envs:Mine-v0' cannot be made"),
        ("Echo-v0", '{"level": 3}', "`env` 'Echo-v0' cannot be made"),
        ("CartPole-v1", "", "`env` 'CartPole-v1' must have text observations"),
    ],
)
def test_an_environment_that_cannot_be_trained_on_is_refused_in_a_sentence(env, kwargs, error):
    with pytest.raises(ValueError, match=f"^{error}"):
        EnvironmentRecord().check(config(env=env, env_kwargs=kwargs))


@pytest.mark.parametrize("kwargs", ["{", "[]", "3", "[" * 5_000])
def test_arguments_that_are_no_json_object_are_refused(kwargs):
    with pytest.raises(ValueError, match="^`env_kwargs` must be"):
        config(env_kwargs=kwargs)


def test_capabilities_are_found_by_attribute():
    assert EnvironmentRecord().capabilities(config()) == frozenset()
    assert EnvironmentRecord().capabilities(config(env="Secret-v0")) == {"hidden"}
    for env in (name for name in RECORDS if name.startswith("ColBench-")):
        found = find_record(env).capabilities(make_config())
        assert found >= {"hidden", "snapshot", "anchor", "verifier"}
        assert ("discrete_actions" in found) == (env in ("ColBench-Backend-v0", "ColBench-Frontend-v0"))


class Breaks(Echo):
    def step(self, action):
        raise IndexError("no such room")


gym.register("Breaks-v0", entry_point=Breaks, disable_env_checker=True)


def test_an_episode_is_played_before_a_run_begins(capsys, tmp_path):
    given = ["--model", "hub/name", "--algorithm", "grpo", "--output", str(tmp_path / "run")]
    assert train.main([*given, "--env", "Breaks-v0", "--dry_run"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: `env` 'Breaks-v0' fails in a trial episode ({__file__}, line ")
    assert said.endswith("IndexError: no such room).\n")
    with pytest.raises(ValueError, match="must contain the metric 'grade'"):
        trial_of(config(max_turns=2), Graded())
    assert trial_of(config(), EnvironmentRecord()).is_reproducible
    assert not (tmp_path / "run").exists()


def test_the_tiny_model_needs_dialogues():
    with pytest.raises(ValueError, match="^SFT of the tiny model needs demonstrations, and Echo-v0 has none"):
        config(model="tiny")
    assert config(model="tiny", env_record=f"{__name__}:RECORD").record is RECORD
    assert config(model="tiny", algorithm="ppo").algorithm.name == "ppo", "it has no language model, so no SFT"


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ("RECORD", "`env_record` must be 'package.module:NAME'"),
        ("no_such_package:RECORD", "`env_record` names a module that does not exist: 'no_such_package'"),
        (f"{__name__}:NOTHING", f"`env_record`: the module '{__name__}' has no 'NOTHING'"),
        (f"{__name__}:TEXT", "`env_record` must name an `EnvironmentRecord`"),
    ],
)
def test_a_record_that_is_none_is_refused(named, error):
    with pytest.raises(ValueError, match=f"^{error}"):
        find_record("Echo-v0", named)


def test_demonstrations_come_from_a_file_or_the_record_and_are_checked(tmp_path):
    talk = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "bye"}]
    file = tmp_path / "talks.jsonl"
    write_rows(file, [{"messages": talk}, {"dialogue_history": talk}])
    run = Run(config(model="tiny", demonstrations=str(file), output=str(tmp_path / "run"), sft_batch=2))
    assert demonstrations(run) == [talk, talk]
    for row in ({"messages": "x"}, {"messages": talk[:1]}, {"messages": [{"role": "nobody", "content": "x"}]}, {}):
        write_rows(file, [{"messages": talk}, row])
        with pytest.raises(ColBenchError, match=r"talks\.jsonl', row 2: expected "):
            demonstrations(run)
    write_rows(file, [])
    with pytest.raises(ColBenchError, match="contains no dialogue"):
        demonstrations(run)
    write_rows(file, [{"messages": talk}])
    with pytest.raises(ColBenchError, match=r"has 1 dialogues, and an optimizer step of SFT takes 2 \(`sft_batch`\)"):
        demonstrations(run)
    turns = Run(config(model="tiny", demonstrations=str(file), output=str(tmp_path / "turns"), sft_batch=2, history=0))
    assert demonstrations(turns) == [talk], "turns are counted there, not dialogues"
    own = Run(config(model="tiny", env_record=f"{__name__}:RECORD", output=str(tmp_path / "own"), sft_dialogues=2))
    assert [talk[0]["content"] for talk in demonstrations(own)] == ["0", "1"]


def test_a_records_defaults_stand_beside_those_of_any_environment():
    assert EnvironmentRecord().all_defaults()["tasks"] == "seeds:0-999"

    class Short(EnvironmentRecord):
        defaults = {"max_turns": 4, "tasks": "seeds:0-3"}

    assert Short().all_defaults() == {**EnvironmentRecord().all_defaults(), "max_turns": 4, "tasks": "seeds:0-3"}
    assert find_record("ColBench-Backend-v0").all_defaults() == {}


class Cut(gym.Env):
    """An environment that takes messages that were cut by a method of its own, and never ends."""

    observation_space = action_space = gym.spaces.Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "Go on.", {}

    def step(self, action):
        return "whole", 0.0, False, False, {}

    def step_cut(self, action):
        return "cut", 0.0, False, False, {}


class Before(Cut):
    """One whose hidden information has no value before `reset`."""

    @property
    def hidden_information(self):
        raise RuntimeError("Expected an episode; call reset first.")


def test_a_message_that_was_cut_counts_for_gymnasiums_limit_of_steps():
    dialogue = TextDialogue(gym.wrappers.TimeLimit(Cut(), max_episode_steps=3), {"0": 0}, "return", 0)
    dialogue.reset(options={"task_id": "0"})
    steps = [dialogue.step("a", is_cut=is_cut) for is_cut in (True, False, True)]
    assert [(step[0], step[3]) for step in steps] == [("cut", False), ("whole", False), ("cut", True)]


def test_what_has_no_value_before_reset_is_there():
    class Around:
        def __getattr__(self, name):
            return getattr(Before(), name)

    for env in (Around(), Before()):
        assert contract.has(env, "hidden_information") and not contract.has(env, "state_key")
