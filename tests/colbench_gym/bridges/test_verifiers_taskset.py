"""The environments in verifiers: a real evaluation of a stand-in model server. `bridges/test.sh` runs it with the package installed."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

vf = pytest.importorskip(
    "verifiers.v1", reason="verifiers is not installed; `bash bridges/test.sh verifiers` installs it and runs this."
)

from verifiers.v1.cli.eval.runner import run_eval  # noqa: E402
from verifiers.v1.configs.cli.eval import EvalConfig  # noqa: E402


@pytest.fixture
def evaluate(tmp_path, monkeypatch):
    """Function: model server, settings of the taskset, of the evaluation -> its episodes."""
    monkeypatch.setenv("VF_RUN_ID", "test")  # verifiers sets it for the rest of the process

    def run(server, taskset, env=None, **settings):
        config = EvalConfig(
            env={"taskset": {"id": "colbench-gym", "sandbox": "embedded", "instructions": "", **taskset}, **(env or {})},
            client={"base_url": server.url, "api_key_var": "NO_KEY"},
            model="m",
            push=False,
            rich=None,
            output_dir=tmp_path / "outputs",
            **settings,
        )
        return asyncio.run(run_eval(config))

    return run


def test_scores_are_those_of_the_environment_on_the_same_dialogues(recorded, repeats, serve, evaluate):
    dialogues = recorded(10, tasks="embedded:test/figures")
    server = serve(repeats(dialogues))
    wanted = {"include": {"ids": [one.task_id for one in dialogues]}}
    episodes = evaluate(server, {"tasks": "embedded:test/figures"}, select=wanted)
    by_id = {episode.task.data.id: episode for episode in episodes}
    assert {one.task_id for one in dialogues} == set(by_id)
    assert {one.reward for one in dialogues} == {0.0, 1.0}
    for one in dialogues:
        (trace,) = by_id[one.task_id].traces
        assert by_id[one.task_id].ok and trace.reward == one.reward
        assert trace.info["outcome"] == one.metrics["outcome"]
        assert {name: trace.metrics[name] for name in ("success", "tests_passed", "answered", "turns")} == {
            name: float(one.metrics[name]) for name in ("success", "tests_passed", "answered", "turns")
        }
        heard = [m.content for m in trace.branches[-1].messages if m.role == "user"]
        assert heard == [m["content"] for m in one.messages if m["role"] == "user"]


def test_private_thoughts_are_not_in_the_agents_later_prompts(recorded, repeats, serve, evaluate):
    (one,) = recorded(1, tasks="embedded:test/figures")
    server = serve(repeats([one]))
    (episode,) = evaluate(server, {"tasks": "embedded:test/figures"}, select={"include": {"ids": [one.task_id]}})
    assert len(episode.traces[0].branches) == 2  # before and after the turn with the thought
    last = max((request["messages"] for request in server.asked), key=len)
    assert last == one.messages[:-1]
    assert "OUTPUT:" in one.utterances[1] and "fee" not in json.dumps(last)


def test_many_dialogues_are_under_way_at_once(recorded, serve, together, evaluate):
    with together(8) as human:
        server = serve(lambda messages: "Is it so?" if len(messages) == 1 else "I WANT TO ANSWER: nothing")
        simulator = {"name": "openai", "model": "human", "base_url": human.url, "max_retries": 0}
        episodes = evaluate(server, {"tasks": "embedded:test[:8]", "simulator": json.dumps(simulator)})
    assert [episode.ok for episode in episodes] == [True] * 8
    assert {episode.traces[0].num_turns for episode in episodes} == {2}


def test_a_void_episode_is_an_error_and_no_score(serve, evaluate, canary_rows, canary):
    human = serve(lambda messages: "")  # an empty reply is no reply
    server = serve(lambda messages: "Is it so?")
    simulator = {"name": "openai", "model": "human", "base_url": human.url, "max_retries": 0, "backoff_s": 0.0}
    (episode,) = evaluate(server, {"tasks": canary_rows, "simulator": simulator})
    (trace,) = episode.traces
    assert not episode.ok and not trace.ok and not trace.rewards
    assert trace.errors[0].type == "VoidEpisodeError" and "SimulatorError" in trace.errors[0].message
    assert canary not in json.dumps(episode.to_record())


def test_a_rule_plays_a_void_episode_again(serve, evaluate):
    starts = []

    def speak(messages):
        starts.extend([1] * (len(messages) == 1))
        return "Is it so?" if len(messages) == 1 else "I WANT TO ANSWER: nothing"

    human = serve(lambda messages: "" if len(starts) == 1 else "It is so.")  # an empty reply is no reply
    server = serve(speak)
    simulator = {"name": "openai", "model": "human", "base_url": human.url, "max_retries": 0, "backoff_s": 0.0}
    rules = {"retries": {"rules": [{"type": "VoidEpisodeError", "max_retries": 1}]}}
    (episode,) = evaluate(server, {"tasks": "embedded:test[:1]", "simulator": simulator}, env=rules)
    assert len(starts) == 2 and episode.ok and episode.traces[0].info["outcome"] == "exception:NameError"


def test_an_answer_that_was_cut_is_not_graded(serve, evaluate, canary_rows, passes):
    server = serve(lambda messages: (passes, "length" if len(server.asked) == 1 else "stop"))
    for outcome, reward in (("answer_cut", 0.0), ("passed", 1.0)):
        (episode,) = evaluate(server, {"tasks": canary_rows})
        (trace,) = episode.traces
        assert episode.ok and (trace.info["outcome"], trace.reward) == (outcome, reward)


@pytest.mark.parametrize(("reasoning", "outcome"), [("<plan> </plan>", "exception:NameError"), ("none", "passed")])
def test_thoughts_are_parted_by_the_users_setting(serve, evaluate, canary_rows, passes, reasoning, outcome):
    server = serve(lambda messages: f"<plan>{passes}</plan>I WANT TO ANSWER: nothing")
    (episode,) = evaluate(server, {"tasks": canary_rows, "reasoning": reasoning})
    assert episode.traces[0].info["outcome"] == outcome


def test_a_failing_model_is_its_error_and_no_score(serve, evaluate):
    def speak(messages):
        raise RuntimeError  # the connection closes without a reply

    server = serve(speak)
    server.handle_error = lambda request, address: None
    (episode,) = evaluate(server, {"tasks": "embedded:test[:1]"})
    assert not episode.ok and episode.traces[0].errors[0].type == "ProviderError" and not episode.traces[0].rewards


def test_a_dialogue_that_verifiers_ends_is_unfinished(serve, evaluate):
    server = serve(lambda messages: "Is it so?")
    (episode,) = evaluate(server, {"tasks": "embedded:test[:1]"}, env={"agent": {"max_turns": 2}})
    (trace,) = episode.traces
    assert trace.reward == 0 and trace.info["outcome"] == "unfinished" and trace.metrics["tests_passed"] == 0.0


def test_the_command_line_writes_no_hidden_information(serve, tmp_path, canary_rows, canary, passes):
    server = serve(lambda messages: passes if len(messages) > 2 else "Must I add anything?")
    command = [
        str(Path(sys.executable).with_name("vf-eval")), "colbench-gym", "--model", "m", "--client.base-url", server.url, "--client.api-key-var", "NO_KEY",
        "--env.taskset.tasks", canary_rows, "--env.taskset.sandbox", "embedded", "--env.taskset.env-kwargs", '{"reward": "tests_passed"}',
        "--no-push", "--no-rich", "-o", str(tmp_path / "outputs"), "--run.name", "one", "-r", "2",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = (tmp_path / "outputs/one/traces.jsonl").read_text().splitlines()
    assert [json.loads(line)["traces"][0]["rewards"]["colbench"]["score"] for line in lines] == [1.0, 1.0]
    assert json.loads(lines[0])["task"]["data"]["system_prompt"].startswith("You help a colleague")
    written = "".join(path.read_text() for path in (tmp_path / "outputs").rglob("*") if path.is_file())
    assert canary not in written + done.stdout + done.stderr


def test_an_unknown_argument_is_refused_by_name(serve, evaluate):
    with pytest.raises(ValueError, match="An argument of ColBench-Backend-v0 is unknown"):
        evaluate(serve(str), {"env_kwargs": {"level": 3}})


def test_the_package_names_its_classes_to_verifiers_alone():
    import colbench_gym

    assert colbench_gym.__all__ == ["ColBenchHarness", "ColBenchTaskset", "ColBenchVerifiersEnv"]
    assert issubclass(colbench_gym.ColBenchTaskset, vf.Taskset)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        colbench_gym.nothing  # noqa: B018


def by_canary(messages, hidden):
    """Half a digit for every message of the agent, and whether the hidden information came along."""
    own = [message for message in messages if message["role"] == "assistant"]
    return [1 / 3 + number + 10 * ("return" in hidden) for number, _ in enumerate(own[:-1])] + [None]


def test_credit_per_turn_is_on_the_trace_with_all_its_digits(recorded, repeats, serve, evaluate):
    dialogues = recorded(4, tasks="embedded:test/figures")
    server = serve(repeats(dialogues))
    wanted = {"include": {"ids": [one.task_id for one in dialogues]}}
    rule = f"{__name__}:by_canary"
    episodes = evaluate(server, {"tasks": "embedded:test/figures", "credit": rule}, select=wanted)
    by_id = {episode.task.data.id: episode for episode in episodes}
    assert any(len(one.utterances) > 1 for one in dialogues)
    for one in dialogues:
        (trace,) = by_id[one.task_id].traces
        expected = [1 / 3 + number + 10 for number in range(len(one.utterances) - 1)] + [None]
        assert trace.info["turn_credit"] == expected
        assert json.loads(json.dumps(by_id[one.task_id].to_record()))["traces"][0]["info"]["turn_credit"] == expected


@pytest.fixture
def prime_rl(monkeypatch):
    """`examples.prime_rl_turn_credit` on prime-rl's own algorithms; a checkout is in COLBENCH_PRIME_RL."""
    checkout = os.environ.get("COLBENCH_PRIME_RL")
    if not checkout:
        pytest.skip("COLBENCH_PRIME_RL names no checkout of github.com/PrimeIntellect-ai/prime-rl")
    pytest.importorskip("torch")
    source = Path(checkout, "src/prime_rl/orchestrator/algo")
    stand_ins = {  # what the three files import of the rest, none of which they run
        "prime_rl.configs.algorithm": ("ActionLossType", "AlgoConfig", "FrozenModelConfig", "GRPOAlgoConfig"),
        "prime_rl.utils.logger": ("get_logger",),
        "prime_rl.transports.rollouts": ("TrainingSample",),
    }
    packages = (
        "prime_rl",
        "prime_rl.configs",
        "prime_rl.utils",
        "prime_rl.transports",
        "prime_rl.orchestrator",
        "prime_rl.orchestrator.algo",
    )
    for name in (*packages, *stand_ins):
        module = types.ModuleType(name)
        module.__path__ = []
        for attribute in stand_ins.get(name, ()):
            setattr(module, attribute, object)
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("routing", "base", "grpo"):
        spec = importlib.util.spec_from_file_location(f"prime_rl.orchestrator.algo.{name}", source / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
    monkeypatch.delitem(sys.modules, "examples.prime_rl_turn_credit", raising=False)
    return importlib.import_module("examples.prime_rl_turn_credit")


def a_trace(reward, turns, credit):
    """A clean trace of turns with two sampled tokens each, each after two of the human's."""
    nodes = [
        types.SimpleNamespace(mask=mask, token_ids=[1, 2], advantages=None)
        for _ in range(turns)
        for mask in ([False] * 2, [True] * 2)
    ]
    agent = types.SimpleNamespace(trainable=True)
    info = {} if credit is None else {"turn_credit": credit}
    return types.SimpleNamespace(id="t", reward=reward, nodes=nodes, has_error=False, agent=agent, info=info)


def test_prime_rls_tokens_get_grpos_advantage_and_their_turns_credit(prime_rl):
    traces = [a_trace(1.0, 3, [0.5, 2.0, None]), a_trace(0.0, 2, [0.0, None]), a_trace(0.0, 2, [1.0]), a_trace(1.0, 1, None)]
    episodes = [types.SimpleNamespace(traces=[trace]) for trace in traces]
    config = types.SimpleNamespace(length_penalty=None, weight=2.0)
    algorithm = prime_rl.TurnCreditAlgorithm(config, None)
    asyncio.run(algorithm.score_group(episodes))
    known = [0.5, 2.0, 0.0, 1.0]
    mean = sum(known) / 4
    spread = (sum((c - mean) ** 2 for c in known) / 3) ** 0.5 + 1e-4

    def of(outcome, credit):
        return [outcome + (0.0 if c is None else 2 * (c - mean) / spread) for c in credit for _ in range(2)]

    found = [[a for node in trace.nodes if any(node.mask) for a in node.advantages] for trace in traces]
    expected = [of(0.5, [0.5, 2.0, None]), of(-0.5, [0.0, None]), [-0.5] * 4, [0.5] * 2]
    assert [pytest.approx(one, abs=1e-6) for one in expected] == found
