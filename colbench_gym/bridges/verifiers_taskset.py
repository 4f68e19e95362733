"""The environments in verifiers (0.4): a taskset, an environment in which the simulated human is the user, and a chat harness.

    vf-eval colbench-gym --model MODEL --client.base-url http://HOST/v1 --env.taskset.tasks "embedded:test[:50]"

In verifiers a taskset says what the tasks are, a harness is the program that calls the model, and an environment plays one task with
one or more agents. `colbench-gym` names all three, since the package's `__all__` holds their classes (`colbench_gym.__getattr__`).

The harness calls the model from this process, once a turn, through verifiers' own endpoint, so that limits, sampling settings, tokens
and retries are verifiers'. It sends the dialogue as the environment shows it: without the agent's private thoughts of earlier turns. Other
harnesses (`--env.agent.harness.id`) work too; they keep their own transcript, thoughts included.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from colbench_gym.agents.prompts import instructions
from colbench_gym.bridges.conversations import THREADS, Conversation, Conversations, CreditRule, conversation_seed, numbers
from colbench_gym.reasoning import AUTO
from colbench_gym.servers.completion import STOP, finish_reason
from sandboxes.named import load_named

try:
    import verifiers.v1 as vf
    from verifiers.v1.dialects.chat import message_to_wire
except ImportError as missing:
    raise ImportError(
        f"The bridge to verifiers needs verifiers 0.4 ({missing}); install it with `pip install 'verifiers>=0.4,<0.5'`."
    ) from None

__all__ = ["ColBenchHarness", "ColBenchTaskset", "ColBenchVerifiersEnv"]


class ColBenchTasksetConfig(vf.TasksetConfig):
    """Settings of the environment, under `--env.taskset`."""

    env: Literal["ColBench-Backend-v0", "ColBench-Frontend-v0"] = "ColBench-Backend-v0"
    """Id of the environment."""
    tasks: str = "embedded:train"
    """Task source: "embedded:test", a JSONL path, "hub:OWNER/DATASET", optionally sliced."""
    simulator: str | dict[str, Any] = "scripted"
    """Simulated human: a name, or a mapping (or its JSON) with "name" and arguments."""
    sandbox: str = "auto"
    """Sandbox that runs programs, or renders pages: "auto", "embedded" or "docker"."""
    max_turns: int | None = None
    """Agent turns of a dialogue; None for the task's own limit."""
    env_kwargs: dict[str, Any] = {}
    """Further arguments of the environment, such as {"reward": "tests_passed"}; see its class."""
    reasoning: str = AUTO
    """How the model marks thoughts that stand in its messages: "auto", "none" or "OPEN CLOSE", see `colbench_gym.reasoning.Reasoning`."""
    instructions: str = "auto"
    """System prompt: "auto" for ours, "" for none, or the text. verifiers' `system_prompt` (a file) replaces it."""
    seed: int = 0
    """Seed of the simulated humans. All rollouts of a task meet the same human."""
    threads: int = THREADS
    """Dialogues whose reply is awaited at the same time."""
    sandbox_workers: int = 2
    """Processes that grade answers, or browsers."""
    credit: str = ""
    """'my_package:NAME' of a function (messages, hidden information) -> credit of each of the agent's messages, or None; it is put into `trace.info`, for trainers
    that take credit per turn. It tells of what is hidden."""
    error_details: bool = False
    """Store the text of the error of a void episode in its trace; it may quote the hidden reference."""


class ColBenchTaskData(vf.TaskData):
    """What an agent may see of a task. The prompt is the simulated human's request."""


class ColBenchTask(vf.Task[ColBenchTaskData]):
    """A task; it is scored by the environment and has no rewards of its own."""


class ColBenchTaskset(vf.Taskset[ColBenchTask, ColBenchTasksetConfig]):
    """The tasks of a source, and the dialogues about them."""

    def __init__(self, config: ColBenchTasksetConfig) -> None:
        """Load the tasks."""
        super().__init__(config)
        names = ("tasks", "simulator", "sandbox", "max_turns", "reasoning", "threads", "sandbox_workers", "error_details")
        self.credit: CreditRule | None = load_named("credit", config.credit) if config.credit else None
        self.conversations = Conversations(config.env, **{name: getattr(config, name) for name in names} | config.env_kwargs)

    def load(self) -> Iterator[ColBenchTask]:
        """The public part of every task."""
        system_prompt = instructions(self.config.env, self.config.instructions) or None
        for task in self.conversations.tasks:
            data = ColBenchTaskData(id=task.id, name=task.id, prompt=task.description, system_prompt=system_prompt)
            yield ColBenchTask(data, self.config.task)


class ColBenchHarnessConfig(vf.HarnessConfig):
    """It has no settings of its own."""


class ColBenchHarness(vf.Harness[ColBenchHarnessConfig]):
    """Calls the model once a turn, from this process."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> Any:
        """One completion of `data.prompt` through verifiers' endpoint, which records it on the trace."""
        import openai

        system_prompt, prompt = self.resolve_prompt(data)
        dialogue = (
            [{"role": "user", "content": prompt}]
            if isinstance(prompt, str)
            else [message_to_wire(message) for message in prompt or []]
        )
        leading = [{"role": "system", "content": system_prompt}] if system_prompt else []
        async with openai.AsyncOpenAI(base_url=endpoint, api_key=secret, timeout=None) as client:
            messages: Any = [*leading, *dialogue]
            await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")

    async def resume(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
        messages: Any,
        tool_interception_url: str | None = None,
    ) -> Any:
        """One completion of the whole dialogue, which the environment gives in `messages`."""
        whole = data.model_copy(update={"prompt": messages})
        return await self.launch(ctx, trace, runtime, endpoint, secret, mcp_urls, whole)


class ColBenchEnvConfig(vf.EnvConfig):
    """One agent, which runs in this process: no container is needed."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class ColBenchVerifiersEnv(vf.Env[ColBenchEnvConfig]):
    """An agent talks with the simulated human; the environment's reward is the reward of its trace.

    It can be served any number of times: sandbox and simulated human end with the last reference to its taskset.
    """

    async def run(self, task: Any, agents: Any) -> None:
        """Play one task.

        Raises:
            VoidEpisodeError: If the simulated human or the sandbox failed. verifiers records it as the error of trace and episode.
        """
        taskset: Any = self.taskset
        config, conversations = taskset.config, taskset.conversations
        conversation = await conversations.open(task.data.id, conversation_seed(config.seed, task.data.id))
        async with agents.agent.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                reply = await conversation.say(_text(segment), _finish_reason(interaction.trace))
                if reply is None:
                    break
                # Our harness keeps no transcript: it gets the whole dialogue.
                is_ours = isinstance(agents.agent.harness, ColBenchHarness)
                segment = await interaction.turn(conversation.prompt if is_ours else reply)
        _record(interaction.trace, conversation)
        if taskset.credit and not interaction.trace.errors:
            interaction.trace.info["turn_credit"] = await conversation.credit(taskset.credit)


def _text(segment: Any) -> str:
    """What the agent said in a turn, as it was sampled. A reasoning model's reasoning is not part of it."""
    content = segment.messages[-1].content
    return content if isinstance(content, str) else segment.last_reply


def _finish_reason(trace: Any) -> str:
    """Why the agent's latest message ended. `trace.is_truncated` would also count limits of verifiers' own."""
    reasons = [call.finish_reason for call in trace.calls if call.error is None]
    return finish_reason(reasons[-1]) if reasons else STOP


def _record(trace: Any, conversation: Conversation) -> None:
    """Put the outcome of a dialogue on its trace. A trace on which the model's call failed has no score."""
    if trace.errors:
        return
    trace.record_reward("colbench", conversation.reward)
    trace.record_metrics(numbers(conversation.metrics))
    trace.info["outcome"] = conversation.metrics["outcome"]
