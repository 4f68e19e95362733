"""The environments in inspect_ai: real evaluations of its own mock model. `bridges/test.sh` runs it with the package installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest.importorskip(
    "inspect_ai", reason="inspect_ai is not installed; `bash bridges/test.sh inspect` installs it and runs this."
)

from inspect_ai import eval as inspect_eval
from inspect_ai import score as score_again
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from colbench_gym.bridges import inspect_task

METRICS = ("success", "tests_passed", "answered", "turns")


@pytest.fixture
def evaluate(tmp_path):
    """Function: function of chat messages -> text, arguments of the task, of the evaluation -> its log."""

    def run(speak, given, **settings):
        def output(said, tools, tool_choice, config):
            spoken = speak([{"role": one.role, "content": one.text} for one in said])
            text, reason = spoken if isinstance(spoken, tuple) else (spoken, "stop")
            found = ModelOutput.from_content("mockllm", text, reason)
            found.usage = ModelUsage(
                input_tokens=5, output_tokens=7, total_tokens=12
            )  # else it loads a tokenizer from the network
            return found

        model = get_model("mockllm/model", custom_outputs=output, memoize=False)
        task = inspect_task.colbench(**{"sandbox": "embedded", "instructions": "", **given})
        defaults = {"display": "none", "log_dir": str(tmp_path / "logs")}
        (log,) = inspect_eval(task, model=model, **{**defaults, **settings})
        return log

    return run


def test_scores_are_those_of_the_environment_on_the_same_dialogues(recorded, repeats, evaluate, monkeypatch):
    monkeypatch.setattr(inspect_task, "conversation_seed", lambda seed, task_id, epoch: inspect_task_seed(seed, task_id))
    dialogues = recorded(10, tasks="embedded:test/figures")
    log = evaluate(repeats(dialogues), {"tasks": "embedded:test/figures"}, sample_id=[one.task_id for one in dialogues])
    assert log.status == "success", log.error
    by_id = {sample.id: sample for sample in log.samples}
    assert len(by_id) == 10 and {one.reward for one in dialogues} == {0.0, 1.0}
    for one in dialogues:
        score = by_id[one.task_id].scores["colbench_scorer"]
        assert {name: score.value[name] for name in METRICS} == {name: float(one.metrics[name]) for name in METRICS}
        assert (score.value["reward"], score.explanation) == (one.reward, one.metrics["outcome"])
        heard = [m.text for m in by_id[one.task_id].messages if m.role == "user"]
        assert heard == [m["content"] for m in one.messages if m["role"] == "user"]
    means = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert means["success"] == pytest.approx(sum(one.metrics["success"] for one in dialogues) / 10)


def inspect_task_seed(seed, task_id):
    from colbench_gym.bridges.conversations import conversation_seed

    return conversation_seed(seed, task_id)


def test_private_thoughts_are_not_in_the_agents_later_prompts(recorded, repeats, evaluate):
    (one,) = recorded(1, tasks="embedded:test/figures")
    prompts = []
    speak = repeats([one])

    def spy(messages):
        prompts.append(messages)
        return speak(messages)

    evaluate(spy, {"tasks": "embedded:test/figures"}, sample_id=one.task_id)
    assert "OUTPUT:" in one.utterances[1] and len(prompts) == 3
    assert "fee" not in json.dumps(prompts)


def test_a_log_is_graded_once_more_from_its_messages(recorded, repeats, evaluate, tmp_path):
    dialogues = recorded(5, tasks="embedded:test/figures")
    ids = [one.task_id for one in dialogues]
    log = evaluate(repeats(dialogues), {"tasks": "embedded:test/figures"}, sample_id=ids, score=False)
    settings = log.eval.scorers[0].options["settings"] if log.eval.scorers else None
    settings = settings or {"tasks": "embedded:test/figures", "sandbox": "embedded"}
    scored = score_again(read_eval_log(log.location), inspect_task.colbench_scorer(settings), display="none")
    got = {sample.id: sample.scores["colbench_scorer"].value["tests_passed"] for sample in scored.samples}
    assert got == {one.task_id: one.metrics["tests_passed"] for one in dialogues}


@pytest.mark.parametrize("reason", ["max_tokens", "model_length", "stop"])
def test_an_answer_that_was_cut_is_not_graded(evaluate, canary_rows, passes, reason):
    log = evaluate(lambda messages: (passes, reason), {"tasks": canary_rows})
    again = score_again(
        read_eval_log(log.location), inspect_task.colbench_scorer({"tasks": canary_rows, "sandbox": "embedded"}), display="none"
    )
    for scored in (log, again):
        score = scored.samples[0].scores["colbench_scorer"]
        assert (score.explanation, score.value["success"]) == (("passed", 1) if reason == "stop" else ("answer_cut", 0))


@pytest.mark.parametrize(("reasoning", "outcome"), [("<plan> </plan>", "exception:NameError"), ("none", "passed")])
def test_thoughts_are_parted_by_the_users_setting(evaluate, canary_rows, passes, reasoning, outcome):
    log = evaluate(
        lambda messages: f"<plan>{passes}</plan>I WANT TO ANSWER: nothing", {"tasks": canary_rows, "reasoning": reasoning}
    )
    score = log.samples[0].scores["colbench_scorer"]
    assert score.explanation == outcome
    assert (score.answer == "nothing") == (reasoning != "none")


def test_many_dialogues_are_under_way_at_once(evaluate, together):
    with together(8) as human:
        simulator = {"name": "openai", "model": "human", "base_url": human.url, "max_retries": 0}
        log = evaluate(
            lambda messages: "Is it so?" if len(messages) == 1 else "I WANT TO ANSWER: nothing",
            {"tasks": "embedded:test[:8]", "simulator": simulator},
            max_samples=8,
        )
    assert log.status == "success" and {sample.scores["colbench_scorer"].value["turns"] for sample in log.samples} == {2.0}


def test_a_void_episode_is_an_error_and_no_score(serve, evaluate, canary_rows, canary):
    human = serve(lambda messages: "")  # an empty reply is no reply
    simulator = json.dumps({"name": "openai", "model": "human", "base_url": human.url, "max_retries": 0, "backoff_s": 0.0})
    log = evaluate(lambda messages: "Is it so?", {"tasks": canary_rows, "simulator": simulator})
    assert log.status == "error"  # more than `MAX_VOID` of the samples
    log = evaluate(lambda messages: "Is it so?", {"tasks": canary_rows, "simulator": simulator}, fail_on_error=False)
    (sample,) = log.samples
    assert sample.error.message.startswith("VoidEpisodeError(") and "SimulatorError" in sample.error.message
    assert not sample.scores
    assert canary not in log.model_dump_json()


def test_a_dialogue_that_inspect_ends_is_unfinished(evaluate):
    log = evaluate(lambda messages: "Is it so?", {"tasks": "embedded:test[:1]"}, message_limit=4)
    score = log.samples[0].scores["colbench_scorer"]
    assert log.samples[0].limit.type == "message"
    assert score.explanation == "unfinished" and score.value["success"] == 0 and score.value["tests_passed"] == 0


def test_pages_are_compared_by_our_browser(needs_browser, evaluate):
    for package in ("playwright", "tinycss2"):
        pytest.importorskip(package, reason=f"{package} is not installed: `pip install .[frontend]`.")
    page = "<body class='bg-gray-800'><h1>Harbour House</h1></body>"
    log = evaluate(
        lambda messages: f"Like this?\n{page}" if len(messages) == 1 else "I WANT TO ANSWER:",
        {"env": "ColBench-Frontend-v0", "tasks": "embedded:test[:1]", "sandbox": "auto", "sandbox_workers": 1},
    )
    score = log.samples[0].scores["colbench_scorer"]
    assert (
        score.explanation == "rendered" and 0 < score.value["similarity"] == score.value["reward"] and score.value["turns"] == 2
    )


def test_epochs_meet_other_humans_and_share_one_sandbox(evaluate):
    threads = {thread.name for thread in threading.enumerate()}
    log = evaluate(lambda messages: "I WANT TO ANSWER: nothing", {"tasks": "embedded:test[:2]"}, epochs=2)
    assert len(log.samples) == 4 and log.status == "success"
    assert sum(name.startswith("colbench") for name in {t.name for t in threading.enumerate()} - threads) <= 4


def _command_line(name, tmp_path, canary_rows, model, **environment):
    command = [
        str(Path(sys.executable).with_name("inspect")), "eval", name, *(["--model", model] if model else []), "-T", f"tasks={canary_rows}", "-T", "sandbox=embedded",
        "-T", 'env_kwargs={"reward": "tests_passed"}', "-T", "max_turns=2", "--display", "plain", "--log-dir", str(tmp_path / "logs"), "--log-format", "json",
    ]  # fmt: skip
    env = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    path = next((tmp_path / "logs").glob("*.json"))
    log = read_eval_log(str(path))
    assert log.status == "success", log.error
    assert log.samples[0].messages[0].text.startswith("You help a colleague")
    return log.samples[0].scores["colbench_scorer"], path.read_text() + done.stdout + done.stderr


def test_the_command_line_writes_no_hidden_information(tmp_path, canary_rows, canary, serve, passes):
    server = serve(lambda messages: passes if len(messages) > 2 else "Must I add anything?")
    given = {"STANDIN_BASE_URL": server.url, "STANDIN_API_KEY": "none"}
    name = f"{inspect_task.__file__}@colbench"
    score, written = _command_line(name, tmp_path, canary_rows, "openai-api/standin/m", **given)
    assert (score.value["reward"], score.value["turns"]) == (1.0, 2.0)
    assert canary not in written


MINE = """
from inspect_ai import task, task_with
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from colbench_gym.bridges.inspect_task import colbench


@task
def mine(**given):
    def speak(messages, tools, tool_choice, config):
        output = ModelOutput.from_content("mockllm", "Is it so?")
        output.usage = ModelUsage(input_tokens=5, output_tokens=7, total_tokens=12)  # else a tokenizer is loaded from the network
        return output

    return task_with(colbench(**given), model=get_model("mockllm/model", custom_outputs=speak))
"""


def test_the_command_line_runs_a_file_with_the_mock_model(tmp_path, canary_rows, canary):
    (tmp_path / "mine.py").write_text(MINE)
    score, written = _command_line("mine.py", tmp_path, canary_rows, None)
    assert (score.value["reward"], score.value["turns"], score.value["answered"]) == (0.0, 2.0, 0.0)
    assert canary not in written


def test_the_installed_package_names_its_task(tmp_path, canary_rows, serve):
    if "colbench_gym" not in {found.name for found in entry_points(group="inspect_ai")}:
        pytest.skip("The package is not installed with its entry points; `pip install .` and run again.")
    given = {"STANDIN_BASE_URL": serve(lambda messages: "Is it so?").url, "STANDIN_API_KEY": "none"}
    score, _ = _command_line("colbench_gym/colbench", tmp_path, canary_rows, "openai-api/standin/m", **given)
    assert score.value["turns"] == 2.0
