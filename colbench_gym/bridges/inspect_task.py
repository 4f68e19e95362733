"""The environments in inspect_ai (0.3): a task, a solver that holds the dialogue, and a scorer that grades its answer.

    inspect eval colbench_gym/colbench --model openai/gpt-4o-mini -T tasks="embedded:test[:50]"

The solver takes turns between the model and the simulated human until the model answers or no turn is left. The scorer runs the
hidden tests on that answer in our sandbox (or compares the pages), from the messages alone, so `inspect score` grades a log once more.
Samples hold the request and the task's public id, never its hidden half.
"""

from __future__ import annotations

import json
from typing import Any
from weakref import WeakValueDictionary

from colbench_gym.agents.prompts import instructions as instructions_of
from colbench_gym.bridges.conversations import THREADS, Conversation, Conversations, conversation_seed, numbers
from colbench_gym.reasoning import AUTO
from colbench_gym.servers.completion import finish_reason

try:
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import Generate, Solver, TaskState, solver
except ImportError as missing:
    raise ImportError(
        f"The bridge to inspect_ai needs inspect_ai 0.3 ({missing}); install it with `pip install 'inspect-ai>=0.3.200,<0.4'`."
    ) from None

#: Share of samples with an error at which an evaluation stops; the main job's `--max_void`. `--fail-on-error` replaces it.
MAX_VOID = 0.05
#: Dialogues of the tasks that are under way, by their arguments: solver and scorer of an evaluation share them.
_opened: WeakValueDictionary[str, Conversations] = WeakValueDictionary()


@task
def colbench(
    env: str = "ColBench-Backend-v0",
    tasks: str = "embedded:test",
    simulator: str | dict[str, Any] = "scripted",
    sandbox: str = "auto",
    max_turns: int | None = None,
    env_kwargs: dict[str, Any] | None = None,
    reasoning: str = AUTO,
    instructions: str = "auto",
    seed: int = 0,
    threads: int = THREADS,
    sandbox_workers: int = 2,
    error_details: bool = False,
) -> Task:
    """ColBench as a task.

    Args:
        env: "ColBench-Backend-v0" or "ColBench-Frontend-v0".
        tasks: Task source: "embedded:test", a JSONL path, "hub:OWNER/DATASET", optionally sliced.
        simulator: Simulated human: a name, or a mapping (or its JSON) with "name" and arguments.
        sandbox: Sandbox that runs programs, or renders pages: "auto", "embedded" or "docker". It is ours and not inspect_ai's.
        max_turns: Agent turns of a dialogue; None for the task's own limit.
        env_kwargs: Further arguments of the environment, such as {"reward": "tests_passed"}; see its class.
        reasoning: How the model marks thoughts that stand in its messages: "auto", "none" or "OPEN CLOSE", see `colbench_gym.reasoning.Reasoning`.
        instructions: System prompt: "auto" for ours, "" for none, or the text.
        seed: Seed of the simulated humans. Every epoch meets humans of its own.
        threads: Dialogues whose reply is awaited at the same time.
        sandbox_workers: Processes that grade answers, or browsers.
        error_details: Log the text of the error of a void episode; it may quote the hidden reference.
    """
    settings = {
        "env": env, "tasks": tasks, "simulator": simulator, "sandbox": sandbox, "max_turns": max_turns, "env_kwargs": env_kwargs,
        "reasoning": reasoning, "threads": threads, "sandbox_workers": sandbox_workers, "error_details": error_details,
    }  # fmt: skip
    system_prompt = instructions_of(env, instructions)
    leading: list[ChatMessage] = [ChatMessageSystem(content=system_prompt)] if system_prompt else []
    conversations = _open(settings)
    return Task(
        dataset=MemoryDataset(
            [
                Sample(
                    input=[*leading, ChatMessageUser(content=drawn.description)], id=drawn.id, metadata={"task_id": drawn.id}
                )
                for drawn in conversations.tasks
            ],
            name=tasks,
        ),
        solver=dialogue(settings, seed),
        scorer=colbench_scorer(settings),
        fail_on_error=MAX_VOID,
    )


@solver
def dialogue(settings: dict[str, Any], seed: int = 0) -> Solver:
    """The model talks with the simulated human until it answers, or no turn is left.

    Args:
        settings: Arguments of `Conversations`, see `colbench`.
        seed: Seed of the simulated humans.
    """
    conversations = _open(settings)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        task_id = state.metadata["task_id"]
        conversation = await conversations.open(task_id, conversation_seed(seed, task_id, state.epoch))
        while not state.completed:
            state = await generate(state, tool_calls="none")
            reply = None if conversation.is_last(state.output.completion) else await conversation.say(state.output.completion)
            if reply is None:
                break
            _hide_thought(state.messages, conversation)
            state.messages.append(ChatMessageUser(content=reply))
        return state

    return solve


@scorer(metrics={"*": [mean(), stderr()]})
def colbench_scorer(settings: dict[str, Any]) -> Scorer:
    """The hidden tests (or the similarity of pages) on the answer of a dialogue.

    Args:
        settings: Arguments of `Conversations`, see `colbench`.
    """
    conversations = _open(settings)

    async def score(state: TaskState, target: Target) -> Score:
        dialogue = [
            {"role": message.role, "content": message.text}
            for message in state.messages
            if message.role in ("user", "assistant")
        ]
        has_last = len(dialogue) > 1 and dialogue[-1]["role"] == "assistant"
        last = dialogue.pop()["content"] if has_last else ""
        conversation = await conversations.resume(state.metadata["task_id"], dialogue)
        if has_last and conversation.is_last(last):
            await conversation.say(last, finish_reason(state.output.stop_reason))
        return Score(
            value={**numbers(conversation.metrics), "reward": conversation.reward},
            answer=conversation.answer(last),
            explanation=conversation.metrics["outcome"],
        )

    return score


def _hide_thought(messages: list[ChatMessage], conversation: Conversation) -> None:
    """Leave the private thought out of the agent's last message, as the environment does; inspect_ai's transcript keeps it."""
    heard = conversation.prompt[-2]["content"]
    if messages[-1].text != heard and isinstance(messages[-1], ChatMessageAssistant):
        messages[-1] = messages[-1].model_copy(update={"content": heard})


def _open(settings: dict[str, Any]) -> Conversations:
    name = json.dumps(settings, sort_keys=True)
    conversations = _opened.get(name)
    if conversations is None:
        given = {key: value for key, value in settings.items() if key != "env_kwargs"}
        conversations = _opened[name] = Conversations(**given | (settings.get("env_kwargs") or {}))
    return conversations
