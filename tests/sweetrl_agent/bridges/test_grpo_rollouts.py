"""TRL's `GRPOTrainer` on our dialogues: real steps of the real trainer on a random tiny model."""

from __future__ import annotations

import inspect
import json
import math

import gymnasium as gym
import pytest
import torch

import colbench_gym  # noqa: F401
from sweetrl_agent.bridges.grpo_rollouts import GRPORollouts, VLLMPolicy
from sweetrl_agent.core.episode import LENGTH
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.policies.utterances import Speaker

pytestmark = pytest.mark.filterwarnings("ignore")  # of TRL: its rollout functions are experimental


@pytest.mark.parametrize("bf16", [False, True])  # True is GRPOConfig's default: a float32 model under autocast
def test_the_trainer_learns_from_the_environments_rewards(bf16, make_rollouts, make_trainer):
    rollouts = make_rollouts("BridgeCounting-v0", tasks="seeds:0-3")
    trainer = make_trainer(rollouts, bf16=bf16)
    before = {name: value.clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    assert any(not torch.equal(before[name], value) for name, value in trainer.model.named_parameters())
    logged = [row for row in trainer.state.log_history if "reward" in row]
    mean = sum(episode.reward for episode in rollouts.episodes) / 8
    assert logged[-1]["reward"] == pytest.approx(mean) and logged[-1]["turns"] == 2.0 and logged[-1]["void"] == 0.0
    sampled = sum(len(turn.token_ids) for episode in rollouts.episodes for turn in episode.turns)
    assert logged[-1]["trained_tokens"] == pytest.approx(sum(map(bool, sum(rollouts.turn_ids, []))) / sampled)
    assert len({(episode.task_id, episode.index) for episode in rollouts.episodes}) == 8


def test_a_completion_is_the_dialogue_as_it_was_sampled(make_rollouts, make_trainer, tiny_tokenizer):
    rollouts = make_rollouts(tasks="embedded:train[:2]", max_turns=3)
    trainer = make_trainer(rollouts)
    prompts = [row["prompt"] for row in rollouts.dataset()] * 2
    output = rollouts(prompts, trainer)
    for i, episode in enumerate(rollouts.episodes):
        assert rollouts.tasks[i % 2].id == episode.task_id
        assert len({len(output[name][i]) for name in ("completion_ids", "env_mask", "logprobs")}) == 1
        own = [token for token, mask in zip(output["completion_ids"][i], output["env_mask"][i], strict=True) if mask]
        parts = Chat(tiny_tokenizer).sequences(episode.messages, [turn.token_ids for turn in episode.turns])
        part = max(
            parts, key=lambda part: sum(map(len, part.turns))
        )  # all turns, where the tokenizer makes the tokens that were sampled
        assert output["prompt_ids"][i] + output["completion_ids"][i] == part.token_ids
        assert own == [token for turn in part.turns for token in turn]
        assert output["episode"][i] == {"reward": episode.reward, "metrics": episode.metrics}
        with torch.no_grad():
            ids = torch.tensor([output["prompt_ids"][i] + output["completion_ids"][i]])
            found = torch.log_softmax(trainer.model(ids).logits[0].float() / trainer.args.temperature, -1)
        start, first = len(output["prompt_ids"][i]), len(part.turns[0])
        expected = [float(found[start + place - 1, token]) for place, token in enumerate(own[:first])]
        assert output["logprobs"][i][:first] == pytest.approx(expected, abs=1e-3)


def test_rewards_are_those_of_the_environment_on_the_same_dialogues(make_rollouts, make_trainer):
    rollouts = make_rollouts(tasks="embedded:train[:4]", env_kwargs={"reward": "tests_passed"}, max_turns=2)
    prompts = [row["prompt"] for row in rollouts.dataset()]
    output = rollouts(prompts, make_trainer(rollouts))
    env = gym.make("ColBench-Backend-v0", tasks="embedded:train[:4]", sandbox="embedded", reward="tests_passed", max_turns=2)
    for i, episode in enumerate(rollouts.episodes):
        env.reset(seed=0, options={"task_id": episode.task_id})
        for turn in episode.turns:
            step = env.unwrapped.step_cut if turn.finish_reason == LENGTH else env.step
            _, reward, _, _, info = step(turn.text)
        counted = {name: count for name, count in episode.metrics.items() if name not in ("cut_turns", "silent_turns")}
        assert (reward, info["metrics"]) == (output["episode"][i]["reward"], counted)
    env.close()


@pytest.mark.parametrize("reasoning", ["auto", "none", "<plan> </plan>"])
def test_the_environment_parts_thoughts_by_the_users_setting(make_rollouts, reasoning):
    rollouts = make_rollouts(tasks="embedded:train[:1]", max_turns=2, reasoning=reasoning)
    env = rollouts._environments().envs[0]
    env.reset(seed=0)
    env.step("<think>T</think><plan>P</plan>Is it so?")
    heard = {
        "auto": "<plan>P</plan>Is it so?",
        "none": "<think>T</think><plan>P</plan>Is it so?",
        "<plan> </plan>": "<think>T</think>Is it so?",
    }
    assert env.unwrapped.messages[1]["content"] == heard[reasoning]


def test_a_void_episode_has_no_reward_and_no_advantage(make_rollouts, make_trainer):
    rollouts = make_rollouts("BridgeCounting-v0", tasks="seeds:0-3", env_kwargs={"fails": True})
    trainer = make_trainer(rollouts, max_steps=1, per_device_train_batch_size=16)
    seen = []
    compute = trainer._calculate_rewards
    trainer._calculate_rewards = lambda *args: seen.append(compute(*args)) or seen[-1]
    trainer.train()
    by_task = {episode.task_id: [] for episode in rollouts.episodes}
    for episode, reward in zip(rollouts.episodes, seen[0][:, 0].tolist(), strict=True):
        by_task[episode.task_id].append(reward)
    assert all(math.isnan(reward) == bool(int(task) % 2) for task, rewards in by_task.items() for reward in rewards)
    logged = next(row for row in trainer.state.log_history if "reward" in row)
    assert logged["void"] == 0.5 and not math.isnan(logged["reward"]) and not math.isnan(logged["loss"])


def test_hidden_information_is_in_nothing_that_the_trainer_gets(make_rollouts, make_trainer, tmp_path):
    canary = "XQ7canaryZ9"
    row = {
        "problem_description": "I need a total. The signature of the function is: def total(prices)",
        "ground_truth": f"def total(prices):\n    {canary} = 7\n    return sum(prices) + {canary}",
        "test_cases": {f"test{i}": f"total([{i}])" for i in range(1, 11)},
    }
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    rollouts = make_rollouts(tasks=str(path), max_turns=2)
    output = rollouts([row["prompt"] for row in rollouts.dataset()], make_trainer(rollouts))
    assert canary not in json.dumps(output) + repr(rollouts.dataset()[:])


def test_the_dataset_names_tasks_by_their_public_ids(make_rollouts):
    rollouts = make_rollouts(tasks="embedded:train[:20]")
    names = [row["prompt"][0]["task_id"] for row in rollouts.dataset()]
    assert names == [task.public_id for task in rollouts.tasks]
    assert not {task.id for task in rollouts.tasks} & set(names)  # an id of an embedded task spells its hidden choices


def test_an_evaluation_plays_other_tasks_and_training_the_episodes_that_it_plays_without(make_rollouts, make_trainer):
    trained, evaluated = [], []

    class Rollouts(GRPORollouts):
        def __call__(self, prompts, trainer):
            output = super().__call__(prompts, trainer)
            into = trained[-1] if trainer.model.training else evaluated
            into.append(sorted((episode.task_id, json.dumps(episode.messages)) for episode in self.episodes))
            return output

    for evaluation in ({}, {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 4}):
        trained.append([])
        rollouts = Rollouts("BridgeCounting-v0", tasks="seeds:0-3", eval_tasks="seeds:10-11", sandbox="embedded", num_envs=8)
        trainer = make_trainer(rollouts, **evaluation, **({"eval_dataset": rollouts.eval_dataset()} if evaluation else {}))
        trainer.train()
        rollouts.close()
    assert trained[0] == trained[1] and len(trained[0]) == 2
    assert len(evaluated) >= 2 and {name for rows in evaluated for name, _ in rows} == {"10", "11"}
    assert any("eval_reward" in row for row in trainer.state.log_history)
    with pytest.raises(ValueError, match="`eval_dataset` needs `eval_tasks`"):
        make_rollouts("BridgeCounting-v0", tasks="seeds:0-3").eval_dataset()


def test_what_would_do_nothing_is_refused(make_rollouts, make_trainer):
    rollouts = make_rollouts("BridgeCounting-v0", tasks="seeds:0-3")
    with pytest.raises(ValueError, match="`top_k` is not a setting of the dialogues' sampling; leave it at 0"):
        make_trainer(rollouts, top_k=5).train()
    with pytest.raises(ValueError, match="must be that of `GRPORollouts.dataset`, and `eval_dataset`"):
        rollouts([[{"role": "user", "content": "Hello"}]], make_trainer(rollouts))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"env": "ColBench-Backnd-v0"}, "Did you mean 'ColBench-Backend-v0'"),
        ({"env": "CartPole-v1"}, "must have text observations"),
        ({"max_turns": -1}, "`max_turns` must be"),
        ({"max_turns": "many"}, "`max_turns` must be a valid integer"),
        ({"num_envs": 0}, "`num_envs` must be at least 1"),
        ({"seed": "x"}, "`seed` must be a valid integer"),
        ({"on_error": "skp"}, "`on_error` must be one of"),
        ({"env_kwargs": {"rewrd": "success"}}, "Did you mean 'reward'"),
        ({"env_kwargs": {"reward": "test_passed"}}, "`reward` must be"),
        ({"env": "LMRL-Wordle-v0", "tasks": "seeds:0-9", "env_kwargs": {"vocab": 3}}, "'LMRL-Wordle-v0' cannot be made"),
    ],
)
def test_a_wrong_argument_is_refused_before_a_model_is_loaded(given, says):
    with pytest.raises(ValueError, match=says):
        GRPORollouts(**{"tasks": "embedded:train[:3]", **given})


def test_no_limit_of_turns_is_that_of_the_environment(make_rollouts, make_trainer):
    rollouts = make_rollouts("BridgeCounting-v0", tasks="seeds:0-3", max_turns=None)
    make_trainer(rollouts, max_steps=1).train()
    assert {len(episode.turns) for episode in rollouts.episodes} == {2}


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{% for m in messages if m['role'] == 'assistant' %}{{ m['content'] }}{{ eos_token }}{% endfor %}", "leaves out what the other side says last"),
        ("{{ raise_exception('no') }}", "fails for a dialogue .*no"),
        ("{% for %}", "fails for a dialogue .TemplateSyntaxError"),
    ],
)  # fmt: skip
def test_a_chat_template_that_cannot_be_used_is_refused_for_that(make_rollouts, make_trainer, template, says):
    rollouts = make_rollouts("BridgeCounting-v0", tasks="seeds:0-3")
    trainer = make_trainer(rollouts)
    trainer.processing_class.chat_template = template
    with pytest.raises(ValueError, match=f"The chat template of the trainer's tokenizer {says}"):
        rollouts([row["prompt"] for row in rollouts.dataset()], trainer)


def test_vllm_is_asked_as_trl_asks_it(tiny_tokenizer):
    from trl.generation.vllm_generation import VLLMGeneration

    signature = inspect.signature(VLLMGeneration.generate)

    class Generation:
        def generate(self, **given):
            signature.bind(self, **given)
            self.prompts = given["prompts"]
            return self.prompts, [[7, 1]] * len(self.prompts), [[[-0.5], [-0.25]]] * len(self.prompts), None

    generation = Generation()
    dialogue = [{"role": "user", "content": "Hi"}]
    said = VLLMPolicy(generation, Speaker(tiny_tokenizer, 8, system_prompt="Be brief.")).generate([dialogue, dialogue], [0, 1])
    assert [one.log_probs for one in said] == [[-0.5, -0.25]] * 2 and said[0].token_ids == [7, 1]
    assert generation.prompts[0] == Chat(tiny_tokenizer).prompt([{"role": "system", "content": "Be brief."}, *dialogue])
