"""ColBench-Team-v0: the tasks of ColBench-Backend-v0 for several agents, who take turns by their roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from colbench_gym.dialogue import Dialogue
from colbench_gym.envs.backend import MAX_REPLY_CHARS, BackendEnv
from colbench_gym.envs.team_roles import NOTE_CHARS, Role, Team, check_channel, make_team
from colbench_gym.envs.vector import ColBenchVectorEnv
from colbench_gym.reasoning import AUTO
from colbench_gym.scoring.answer import ANSWER_MARKER, AgentMessage
from colbench_gym.scoring.vote import vote
from colbench_gym.simulators import Simulator
from colbench_gym.tasks import Task
from colbench_gym.tasks.rows import OnError
from sandboxes import Sandbox
from sandboxes.arguments import typed


class RolesEnv(BackendEnv):
    """A backend environment whose agents take turns by the roles of a team. A subclass calls `_set_team` in its constructor.

    Every role has a dialogue of its own, of which nobody else sees more than the team says. Only roles that talk get replies of the human, who hears
    neither instructions nor what the agents say to each other.
    """

    team: Team
    #: What the roles before the present one did: the "agent", its "messages" with the human, the "text" that it handed over, whether that is "cut".
    _past: list[dict[str, Any]]

    def _set_team(self, team: Team, note_chars: int, choose: Literal["vote", "first"] = "vote") -> None:
        check_channel(note_chars, choose)
        self.team, self.note_chars, self.choose, self._past = team, note_chars, choose, []

    # ---- who speaks, and what is seen ------------------------------------------------------------------------------------

    @property
    def discrete_actions(self) -> Any:
        """Not there, unlike that of a single agent: there is no menu of what the agents of a team say to each other."""
        raise AttributeError(
            "Discrete actions are made for a single agent: there is no menu of what the agents of a team say to each other."
        )

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, in the order in which they speak."""
        return tuple(role.name for role in self.team.roles)

    @property
    def agent(self) -> str:
        """The agent that speaks next, or that spoke last in a finished episode."""
        return self._role.name

    @property
    def messages(self) -> list[dict[str, str]]:
        """The dialogue of the agent that speaks next: everything that it may see."""
        return self._view(len(self._past), self._dialogue.to_dicts())

    @property
    def all_messages(self) -> list[dict[str, str]]:
        """The dialogues of all agents so far, each message with its "agent". No agent sees this."""
        dialogues = [*(past["messages"] for past in self._past), self._dialogue.to_dicts()]
        views = [(self.agents[place], self._view(place, dialogue)) for place, dialogue in enumerate(dialogues)]
        return [{**message, "agent": agent} if self._is_team else message for agent, view in views for message in view]

    @property
    def num_turns(self) -> int:
        """Turns of all agents so far."""
        return sum(Dialogue.from_dicts(past["messages"]).num_turns for past in self._past) + self._dialogue.num_turns

    @property
    def turn_limit(self) -> int:
        """Turns of the agent that speaks next: those of the task for one who talks with the human, else one."""
        return super().turn_limit if self._role.talks else 1

    @property
    def replies(self) -> list[str]:
        """What the human has said so far to all agents."""
        talks = [dialogue for _, dialogue in self._talks()]
        return [message.content for talk in talks for message in talk.messages[1:] if message.role == "user"]

    @property
    def state_key(self) -> tuple[str, int, tuple[int | str, ...]]:
        """See `ColBenchEnv.state_key`; what the earlier roles handed over belongs to the key."""
        task_id, turn, heard = super().state_key
        return task_id, turn, (*heard, *(past["text"] for past in self._past))

    # ---- the course of an episode ----------------------------------------------------------------------------------------

    def parsed(self, action: str) -> AgentMessage:
        """See `ColBenchEnv.parsed`; the answer of a role with another marker is its note."""
        message = super().parsed(action)
        if self._role.marker == ANSWER_MARKER:
            return message
        _, marker, note = message.utterance.partition(self._role.marker)
        return replace(message, answer=note.strip() if marker else None)

    def get_state(self) -> dict[str, Any]:
        """See `ColBenchEnv.get_state`."""
        return {**super().get_state(), "past": list(self._past)}

    def set_state(self, state: Mapping[str, Any], reseed: int | None = None) -> tuple[str, dict[str, Any]]:
        """See `ColBenchEnv.set_state`."""
        super().set_state(state, reseed)
        self._past = list(state["past"])
        return self._observation(), self._info()

    def _begin(self, task: Task) -> None:
        super()._begin(task)
        self._past = []

    @property
    def _is_team(self) -> bool:
        return len(self.team.roles) > 1

    @property
    def _role(self) -> Role:
        return self.team.roles[len(self._past)]

    def _view(self, place: int, dialogue: list[dict[str, str]]) -> list[dict[str, str]]:
        """A dialogue as its agent sees it."""
        said = {past["agent"]: past["text"] for past in self._past}
        return [
            {**message, "content": self.team.roles[place].first_message(message["content"], said)} if i == 0 else message
            for i, message in enumerate(dialogue)
        ]

    def _talks(self) -> list[tuple[str, Dialogue]]:
        """The dialogues with the human so far, each with its agent."""
        every = [(past["agent"], Dialogue.from_dicts(past["messages"])) for past in self._past] + [(self.agent, self._dialogue)]
        return [talk for talk, role in zip(every, self.team.roles, strict=False) if role.talks]

    def _known(self, task: Task, agent: str) -> Task:
        """The task as the human tells an agent about it."""
        return task

    def _ask(self, task: Task) -> str:
        return super()._ask(self._known(task, self.agent))

    def _agrees(self, task: Task) -> bool:
        return all(self._says_the_same(self._known(task, agent), talk) for agent, talk in self._talks())

    def _finish(self, message: AgentMessage) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """End the part of the present role: the next one speaks, or the episode ends."""
        text = message.utterance if message.answer is None else message.answer
        text = text[: self.note_chars] if self._role.writes == "note" else text
        past = [*self._past, {"agent": self.agent, "messages": self._dialogue.to_dicts(), "text": text, "cut": self._is_cut}]
        if len(past) == len(self.team.roles):
            return self._end(message, [one for one, role in zip(past, self.team.roles, strict=True) if role.answers])
        self._past = past
        self._dialogue = Dialogue().add("user", self._opening())
        return self._observation(), 0.0, False, False, self._info()

    def _opening(self) -> str:
        """What the present role reads first: the request, or the dialogue with the human up to the answer."""
        if not self._role.hears:
            return self.task.description
        return Dialogue.from_dicts(self._past[0]["messages"][:-1]).transcript()

    def _end(
        self, message: AgentMessage, written: Sequence[Mapping[str, Any]]
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Grade one of the answers. An answer that was cut is chosen only if all were."""
        whole = [answer for answer in written if not answer["cut"]] or written
        texts = [str(answer["text"]) for answer in whole]
        chosen = whole[vote(self.task, texts, self.unit_tests) if self.choose == "vote" and len(texts) > 1 else 0]
        self._is_cut = chosen["cut"]
        graded = message if self._role.talks else AgentMessage("", chosen["text"], chosen["text"])
        result = super()._finish(graded)
        if len(written) > 1:
            self._metrics = {**(self._metrics or {}), "chosen": chosen["agent"]}
        return (*result[:4], self._info())

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), **({"agent": self.agent} if self._is_team else {})}


class TeamEnv(RolesEnv):
    """Write a Python function that passes 10 hidden tests, as a team: one agent talks with the simulated human, others write, check or vote.

    ## Description
    The tasks, the human and the tests of ColBench-Backend-v0. The agents speak one after the other, and `info["agent"]` names the next one:

    * `roles="interviewer,coder"`: "interviewer" talks with the human and ends with ``HAND OVER:`` and a note of at most `note_chars` characters. "coder"
      sees the request and the note, and its message is the answer.
    * `roles="generator,verifier,refiner"`: "generator" talks with the human, up to its answer, which is a draft. "verifier" sees the dialogue and the
      draft, and writes a critique. "refiner" sees the dialogue, the draft and the critique, and its message is the answer. Source: MALT, arXiv:2412.01928.
      With `roles="generator,verifier,refiner:K"`, K critiques and refinements of the draft follow each other, by "verifier", "refiner", "verifier#2", "refiner#2", ..., each of whom
      sees nothing of the other passes; `choose` says which refinement counts.
    * `roles="debaters:AxT"`, such as "debaters:2x3": "interviewer" talks with the human up to its answer, which is shown to nobody. In each of T rounds,
      each of A coders writes an answer in one message, as agent "coder1_1", "coder2_1", "coder1_2", ...: the coder, then the round. It sees the dialogue and, from the second
      round on, its own answer and the others' of the round before. `choose` says which answer of the last round counts. Source: MAPoRL, arXiv:2502.18439.

    ## Observation
    Text: the dialogue of the agent that speaks next, as a transcript. It begins with the role's instruction (`colbench_gym.envs.team_roles`). An agent sees
    nothing else of the others.

    ## Action
    Text: one utterance, as in ColBench-Backend-v0. A critique, an answer or a note needs no marker where the agent has one message. At the turn limit, the last
    message of the agent that talks is its note or draft. `step_cut` is `step` for a message that the limit of tokens cut: a note, a draft or a critique is handed over as far as it
    goes. A final answer that was cut is not graded, and counts in no vote.

    ## Reward
    0 before the last step. At the last step the team's outcome: with `reward="success"` 1 if all tests pass, else 0; with `reward="tests_passed"` the
    fraction of tests passed.

    ## Episode end
    *Terminated* by the last role's message. *Truncated* only if the human or the sandbox failed: the episode is then void. See `BackendEnv`.

    ## Info
    "task_id", "turn" (turns of all agents so far), "agent" (who speaks next; at the end, who spoke last), "messages" (the dialogue of this agent alone); at the end
    "metrics" as in ColBench-Backend-v0, where there are several answers with "chosen": the agent whose answer was graded.

    ## Arguments
    * `roles`: "interviewer,coder", "generator,verifier,refiner", "generator,verifier,refiner:K" or "debaters:AxT".
    * `note_chars`: longer notes are cut.
    * `choose`: "vote" for the answer that most of the answers (in a debate, those of the last round) behave like (`colbench_gym.scoring.vote`: on inputs made from the request and the answers, without the
      hidden tests), in a tie the first of them; "first" for the first.
    * `tasks`, `simulator`, `sandbox`, `semantics`, `reward`, `max_reply_chars`, `on_error`, `on_world_error`, `render_mode`, `reasoning`: see `BackendEnv`.
    * `max_turns`: turns of the agent that talks with the human, its note or draft included. None for the task's own budget.
    """

    @typed
    def __init__(
        self,
        roles: str = "interviewer,coder",
        note_chars: int = NOTE_CHARS,
        choose: Literal["vote", "first"] = "vote",
        tasks: str | Sequence[Task] = "embedded:train",
        simulator: str | Mapping[str, Any] | Simulator = "scripted",
        sandbox: str | Mapping[str, Any] | Sandbox = "auto",
        semantics: Literal["module", "released"] = "module",
        reward: Literal["success", "tests_passed"] = "success",
        max_turns: int | None = None,
        max_reply_chars: int = MAX_REPLY_CHARS,
        on_error: OnError = "raise",
        on_world_error: Literal["void", "raise"] = "void",
        render_mode: str | None = None,
        reasoning: str = AUTO,
    ) -> None:
        """Build the environment. The class documents the arguments. The sandbox starts with the first answer."""
        team = make_team(roles)
        super().__init__(
            tasks, simulator, sandbox, semantics, reward, max_turns, max_reply_chars, on_error, on_world_error, render_mode, reasoning
        )  # fmt: skip
        self._set_team(team, note_chars, choose)


class TeamVectorEnv(ColBenchVectorEnv):
    """`num_envs` teams that step in threads, see `ColBenchVectorEnv`."""

    def __init__(self, num_envs: int = 1, **arguments: Any) -> None:
        """Build the sub-environments; arguments of `ColBenchVectorEnv` and of `TeamEnv`."""
        super().__init__(num_envs, env_class=TeamEnv, **arguments)
