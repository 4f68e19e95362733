"""The critics of a comparison: SWEET-RL's own, its ablations, and baselines. `sweet` uses them.

Each critic has a subfolder of the run folder; the files of SWEET-RL's own critic are in the run folder itself.

Source: arXiv:2503.15478, Table 3 and Figure 3a; "untrained" is what the released ranking script computes before any training.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
import transformers

from colbench_gym.files import Row
from colbench_gym.seeds import derive_seed
from sandboxes.browser import make_browser
from sweetrl_agent.algorithms.critic_settings import SWEET, critic_folder, settings_of
from sweetrl_agent.config.model import PRETRAINED
from sweetrl_agent.core.critic import Critic
from sweetrl_agent.core.episode import Episode, Messages
from sweetrl_agent.core.registry import Registry
from sweetrl_agent.core.run import Run
from sweetrl_agent.critics.advantage import AdvantageCritic
from sweetrl_agent.critics.credit import SUM
from sweetrl_agent.critics.gain import DIFFERING, GainCritic, Targets, noise_level
from sweetrl_agent.critics.heads import HeadCritic, TurnHead
from sweetrl_agent.critics.judge import JudgeCritic
from sweetrl_agent.critics.vision import VisionCritic, VisionHead
from sweetrl_agent.models.loading import IMAGE_TEXT_TO_TEXT, load_chat, load_model, system_prompt
from sweetrl_agent.rollouts.collection import iter_trajectories
from sweetrl_agent.rollouts.replies import replies_at
from sweetrl_agent.trainers.running import RANKED_TURNS, SCORED_TOKENS, VERIFIED

if TYPE_CHECKING:
    from sweetrl_agent.trainers.heads import Loss

_log = logging.getLogger(__name__)
#: Oracles: critics that compute the exact advantage, if the environment's record supports it.
ORACLES = ("exact", "marginal")
Opened = AbstractContextManager[Critic]


@dataclass(frozen=True)
class CriticKind:
    """A kind of critic.

    Attributes:
        title: Its name in reports and tables of ablations.
        open: Loads the critic, by its name, from its folder.
        train: Trains it on the collected trajectories and writes its folder; None if it is not trained.
        uses_hidden: Whether it sees the hidden information, where there is any (unless `critic_hidden` is off).
        needs: Required capabilities of the environment, from `core.environment.CAPABILITY_NAMES`. A critic of states, and an oracle, do without hidden information.
        module: Name of the module with its code.
        reads_replies: Whether it reads the other side's replies in the dialogue, unless `critic_replies` is off.
        ignores: Names of `CriticConfig`'s settings that it does not read. Those of the gain are also for the measurement beside every critic (`hint_turns`).
        scoring: What its passes are, for the forecast: "ratios" of two models, a "head", a "judge", a "gain"; "oracle" for none, "" for unknown ones.
    """

    title: str
    open: Callable[[Run, str], Opened]
    train: Callable[[Run, str], None] | None = None
    uses_hidden: bool = True
    needs: frozenset[str] = frozenset({"hidden"})
    module: str = __name__
    scoring: str = ""
    reads_replies: bool = True
    ignores: frozenset[str] = frozenset()

    @property
    def needs_hidden(self) -> bool:
        """Whether it scores by the hidden information itself, so that `critic_hidden` cannot be off: the gain and the oracles."""
        return self.scoring in ("gain", "oracle")

    @property
    def has_replies(self) -> bool:
        """Whether its `rank` gets the other side's replies to the candidates: it requires snapshots."""
        return "snapshot" in self.needs


def kind_of(run: Run, name: str) -> CriticKind:
    """The kind of a critic of a run. A user-defined one is registered in the process of the command alone."""
    algorithm = run.config.algorithms.get(name)
    kind: CriticKind = algorithm.kind if algorithm is not None else CRITICS[name]
    return kind


def hidden_for(run: Run, name: str, hidden: Any) -> Any:
    """The hidden information that a critic sees, in the form in which it is given; "" if it sees none."""
    kind = kind_of(run, name)
    return hidden if kind.needs_hidden or (kind.uses_hidden and settings_of(run, name).critic_hidden) else ""


@contextmanager
def open_advantage(
    run: Run,
    name: str,
    reference_hidden: bool | None = None,
    is_normalised: bool = True,
    is_trained: bool = True,
    reads_replies: bool = True,
) -> Iterator[Critic]:
    """Open a critic of log-ratios; the untrained one is the initial policy itself. `reference_hidden` defaults to the setting."""
    model, start = run.config.model, run.initial_model
    critic = load_model(str(critic_folder(run, name)) if is_trained else start, start, model)
    reference = None if model.lora and is_trained else load_model(start, start, model)
    config = settings_of(run, name)
    sees = config.reference_hidden if reference_hidden is None else reference_hidden
    yield AdvantageCritic(
        critic,
        reference,
        load_chat(start, model),
        is_normalised,
        sees,
        system_prompt(model),
        run.record.hidden_noun,
        reads_replies and config.critic_replies,
    )


@contextmanager
def open_head(run: Run, name: str) -> Iterator[Critic]:
    """Open a trained head with its body."""
    model, start, folder = run.config.model, run.initial_model, critic_folder(run, name)
    scorer = TurnHead(load_model(str(folder), start, model)).load_head(folder)
    yield HeadCritic(scorer, load_chat(start, model), system_prompt(model), noun=run.record.hidden_noun)


@contextmanager
def open_vision(run: Run, name: str) -> Iterator[Critic]:
    """Open a trained head with its vision-language model and a browser that renders the pages."""
    from sweetrl_agent.algorithms.critic_training import make_views

    base, folder = settings_of(run, name).vision_model, critic_folder(run, name)
    scorer = VisionHead(load_model(str(folder), base, run.config.model, IMAGE_TEXT_TO_TEXT)).load_head(folder)
    with make_browser(run.config.task.sandbox_spec()) as browser:
        yield VisionCritic(scorer, make_views(run, base, browser))


@contextmanager
def open_judge(run: Run, name: str) -> Iterator[Critic]:
    """Open the judge, by default on the initial policy's model (see `judge_model`)."""
    judge = settings_of(run, name).judge_model or run.initial_model
    model, chat = load_model(judge, judge, run.config.model), load_chat(judge, run.config.model)
    yield JudgeCritic(model, chat, noun=run.record.hidden_noun)


@contextmanager
def open_gain(run: Run, name: str, in_nats: bool = False) -> Iterator[GainCritic]:
    """Open the information gain, by default of the initial policy's model (see `gain_model`); `in_nats` without a noise level."""
    config, arguments = settings_of(run, name), run.config.model
    reader = arguments.model if config.gain_model == PRETRAINED else config.gain_model or run.initial_model
    tasks = [task for of_split in (run.train, *run.held_out.values()) for task in of_split]
    alternatives = (lambda hidden: run.record.alternatives(hidden, tasks)) if config.gain_tokens == DIFFERING else None
    targets = Targets(load_chat(reader, arguments), run.record.answer_prefix, alternatives)
    model = load_model(reader, reader, arguments)
    critic = GainCritic(model, targets, system_prompt(arguments), config.gain_rule, 0.0 if in_nats else config.gain_threshold)
    if config.gain_noise and not in_nats:
        critic.threshold = noise_level(
            critic, list(iter_trajectories(run)), config.gain_noise, derive_seed(run.seed, "gain noise")
        )
        _log.info("gain: the noise level is %.2f nats", critic.threshold)
    yield critic


def open_oracle(run: Run, name: str) -> Opened:
    """Open an oracle of the environment."""
    return run.record.open_oracle(
        name, run.config, [task for of_split in (run.train, *run.held_out.values()) for task in of_split]
    )


def _train(function: str, run: Run, name: str, **settings: Any) -> None:
    """A function of `critic_training`, which is imported when it trains: its trainers take seconds."""
    from sweetrl_agent.algorithms import critic_training

    getattr(critic_training, function)(run, name, **settings)


#: Settings of other critics, of log-ratios alone, and of the training of critics.
_OF_OTHERS = frozenset({"judge_model", "vision_model"})
_OF_RATIOS = _OF_OTHERS | {"form", "reference_hidden", "critic_replies", "critic_held_out", "critic_nll"}
_OF_TRAINING = _OF_RATIOS | {"critic_learning_rate", "critic_beta", "critic_batch", "critic_micro_batch", "critic_epochs", "critic_max_length"}  # fmt: skip


def _ratios(title: str, form: str = "", uses_hidden: bool = True, reads_replies: bool = True, **opened: Any) -> CriticKind:
    """A trained critic of log-ratios; `opened` are arguments of `open_advantage`."""
    train = partial(_train, "train_advantage", form=form, uses_hidden=uses_hidden, reads_replies=reads_replies)
    needs, fixed = frozenset({"hidden"} if uses_hidden else ()), {"form": bool(form), "critic_replies": not reads_replies}
    fixed |= {"critic_hidden": not uses_hidden, "reference_hidden": not uses_hidden or "reference_hidden" in opened}
    return CriticKind(
        title, partial(open_advantage, reads_replies=reads_replies, **opened), train, uses_hidden, needs, scoring="ratios",
        reads_replies=reads_replies, ignores=_OF_OTHERS | {name for name, is_fixed in fixed.items() if is_fixed},
    )  # fmt: skip


def _head(title: str, loss: Loss) -> CriticKind:
    ignores = _OF_RATIOS | ({"critic_beta"} if loss == "value" else set())
    return CriticKind(
        title, open_head, partial(_train, "train_head", loss=loss), needs=frozenset(), scoring="head", ignores=ignores
    )


def _oracle(title: str) -> CriticKind:
    return CriticKind(f"{title} (oracle)", open_oracle, needs=frozenset(), scoring="oracle", ignores=_OF_TRAINING)


_OURS: dict[str, CriticKind] = {
    SWEET: _ratios("SWEET-RL"),
    "regression_head": _head("w/ regression head", "regression"),
    "no_hidden": _ratios("w/o train-time information", uses_hidden=False),
    "no_replies": _ratios("w/o replies", reads_replies=False),
    "no_normalisation": _ratios("w/o normalisation", form=SUM, is_normalised=False),
    "paper": _ratios("paper's form, paper's reference", form="paper", reference_hidden=True),
    "paper_plain": _ratios("paper's form, reference without hidden information", form="paper", reference_hidden=False),
    "released": _ratios("released form, reference without hidden information", form="released", reference_hidden=False),
    "value_head": _head("value function", "value"),
    "vision_head": CriticKind(
        "w/ regression head on a vision-language model",
        open_vision,
        partial(_train, "train_vision"),
        needs=frozenset({"hidden", "pages"}),
        ignores=_OF_RATIOS - {"vision_model"} | {"critic_max_length"},
    ),
    "judge": CriticKind("LLM as judge", open_judge, needs=frozenset(), scoring="judge", ignores=_OF_TRAINING - {"judge_model"}),
    "untrained": CriticKind(
        "untrained critic",
        partial(open_advantage, reference_hidden=False, is_trained=False),
        scoring="ratios",
        ignores=_OF_TRAINING - {"critic_replies"},
    ),
    "gain": CriticKind(
        "information gain", open_gain, needs=frozenset({"hidden", "snapshot"}), scoring="gain", ignores=_OF_TRAINING
    ),
    "exact": _oracle("exact advantage of the task"),
    "marginal": _oracle("expected advantage given the task family"),
}

CRITICS = Registry("critic", _OURS)


def check_needs(names: Collection[str], config: Any) -> None:
    """Refuse critics that lack a setting, and oracles that the tasks do not have.

    Args:
        names: Names of critics, and of things that use the oracle.
        config: All settings.

    Raises:
        ValueError: Names the critic and what it needs.
    """
    if "vision_head" in names and not config.algorithms["vision_head"].config.vision_model:
        raise ValueError("'vision_head' needs a vision-language model: give `--sweet.vision_model`, a folder or hub name.")
    known = config.record.oracles(config)
    needed = {name: "exact" if name == "credit_tasks" else name for name in names if name in (*ORACLES, "credit_tasks")}
    unknown = [name for name, oracle in needed.items() if oracle not in known]
    if unknown:
        critics = " and ".join(name for name in unknown if name != "credit_tasks")
        advice = [*([f"leave {critics} out"] if critics else []), *([] if "exact" in known else ["give `--credit_tasks 0`"])]
        raise ValueError(
            f"{unknown[0]!r} needs an oracle that `tasks`={config.task.tasks!r} of {config.task.env} does not have (it has {', '.join(known) or 'none'}); "
            f"{', and '.join(advice)}."
        )


def open_critic(run: Run, name: str = SWEET) -> Opened:
    """Open a critic of a run."""
    return kind_of(run, name).open(run, name)


class State(NamedTuple):
    """A turn of a recorded dialogue: the task's id, the seed of the episode, and the messages before the turn."""

    task_id: str
    seed: int
    messages: Messages

    @classmethod
    def collected(cls, run: Run, episode: Episode, turn: int) -> State:
        """The state before a turn of a dialogue of the stage `collect`."""
        return cls(episode.task_id, episode.key.seed(run.seed, "collect"), episode.prefix(turn))


class Candidates(NamedTuple):
    """Texts for a turn, whether the limit of tokens cut each, and their thoughts (empty where none has one). A critic reads no thoughts."""

    texts: Sequence[str]
    cut: Sequence[bool]
    thoughts: Sequence[str] = ()

    @classmethod
    def of(cls, row: Row) -> Candidates:
        """Those of a row of candidates.jsonl, which has "cut" and "thoughts" if any has."""
        return cls(row["texts"], row.get("cut") or [False] * len(row["texts"]), row.get("thoughts", ()))

    def where(self, kept: Sequence[bool]) -> Candidates:
        """Those that are kept."""
        return Candidates([*compress(self.texts, kept)], [*compress(self.cut, kept)], [*compress(self.thoughts, kept)])


@dataclass
class Ranking:
    """A function of the candidates for a turn.

    Attributes:
        work: The function.
        costs: What it has cost since `taken_costs`, by the metrics' names: tokens read (padding included), turns of the environment, answers graded.
    """

    work: Callable[..., Any]
    costs: Counter[str] = field(default_factory=Counter)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self.work(*arguments)

    def taken_costs(self) -> Counter[str]:
        """The costs, which start again."""
        taken = Counter(self.costs)
        self.costs.clear()
        return taken

    def count_turns(self, state: State, candidates: Candidates, is_answer: Callable[[str], bool]) -> None:
        """Count what `replies_at` takes: the turns before the state, and each different candidate."""
        different = {*zip(candidates.texts, candidates.cut, strict=True)}
        self.costs[RANKED_TURNS] += sum(message["role"] == "assistant" for message in state.messages) + len(different)
        self.costs[VERIFIED] += sum(is_answer(text) for text, _ in different)


@contextmanager
def open_ranker(run: Run, name: str) -> Iterator[Ranking]:
    """Open a critic as a function that scores candidates, of a `State`, what is hidden at it, and the candidates: a list of numbers.

    A critic that requires snapshots also gets the replies to the candidates, of an environment that takes the dialogue's turns again.
    """
    has_replies = kind_of(run, name).has_replies
    with open_critic(run, name) as critic, ExitStack() as stack:
        tasks = [task for of_split in (run.train, *run.held_out.values()) for task in of_split]
        env = stack.enter_context(closing(run.environment(tasks, 1))).envs[0] if has_replies else None

        def rank(state: State, hidden: str, candidates: Candidates) -> list[float]:
            more: tuple[Any, ...] = ()
            if env is not None:
                ranking.count_turns(state, candidates, lambda text: run.record.answer(text) is not None)
                more = (replies_at(env, *state, candidates.texts, candidates.cut),)
            return cast(Any, critic).rank(state.messages, hidden_for(run, name, hidden), candidates.texts, *more)  # type: ignore[no-any-return]

        ranking = Ranking(rank)
        for embedding in _embeddings(critic):
            stack.callback(embedding.register_forward_pre_hook(partial(_count_tokens, ranking.costs)).remove)
        yield ranking


@contextmanager
def open_verifier(run: Run) -> Iterator[Ranking]:
    """Open the environment as a function that grades the answers among candidates, of a `State` and the candidates: a number each, None for no answer."""
    tasks = [task for of_split in (run.train, *run.held_out.values()) for task in of_split]
    with closing(run.environment(tasks, 1)) as envs:

        def grade(state: State, candidates: Candidates) -> list[float | None]:
            is_answer = [run.record.answer(text) is not None for text in candidates.texts]
            if not any(is_answer):
                return [None] * len(is_answer)
            answers = candidates.where(is_answer)
            grading.count_turns(state, answers, lambda text: True)
            replies = iter(replies_at(envs.envs[0], *state, answers.texts, answers.cut))
            return [next(replies).reward if ends else None for ends in is_answer]

        grading = Ranking(grade)
        yield grading


def _embeddings(critic: Any) -> list[torch.nn.Module]:
    """The input embeddings of a critic's models, which every token that is read passes once."""
    modules = (module for value in vars(critic).values() if isinstance(value, torch.nn.Module) for module in value.modules())
    embeddings = {
        id(part): part
        for module in modules
        if isinstance(module, transformers.PreTrainedModel)
        if (part := module.get_input_embeddings())
    }
    return list(embeddings.values())


def _count_tokens(costs: Counter[str], module: Any, inputs: tuple[Any, ...]) -> None:
    costs[SCORED_TOKENS] += inputs[0].numel()
