"""The critics of a comparison: SWEET-RL's own, its ablations, and baselines. `sweet` uses them.

Each critic has a subfolder of the run folder; the files of SWEET-RL's own critic are in the run folder itself.

Source: arXiv:2503.15478, Table 3 and Figure 3a; "untrained" is what the released ranking script computes before any training.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from colbench_gym.files import read_object, write_json
from colbench_gym.seeds import derive_seed
from sandboxes.browser import make_browser
from sweetrl_agent.algorithms.critic_settings import SWEET, critic_folder, settings_of
from sweetrl_agent.config.model import PRETRAINED
from sweetrl_agent.config.pipeline import NOISE_LEVEL
from sweetrl_agent.core.critic import Critic
from sweetrl_agent.core.registry import Registry
from sweetrl_agent.core.run import Run, all_tasks
from sweetrl_agent.critics.advantage import AdvantageCritic
from sweetrl_agent.critics.credit import SUM
from sweetrl_agent.critics.gain import DIFFERING, GainCritic, Targets, noise_level
from sweetrl_agent.critics.heads import HeadCritic, TurnHead
from sweetrl_agent.critics.judge import JudgeCritic
from sweetrl_agent.critics.vision import VisionCritic, VisionHead
from sweetrl_agent.models.loading import IMAGE_TEXT_TO_TEXT, load_chat, load_model, system_prompt
from sweetrl_agent.rollouts.collection import iter_trajectories

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
    tasks = all_tasks(run)
    alternatives = (lambda hidden: run.record.alternatives(hidden, tasks)) if config.gain_tokens == DIFFERING else None
    targets = Targets(load_chat(reader, arguments), run.record.answer_prefix, alternatives)
    model = load_model(reader, reader, arguments)
    critic = GainCritic(model, targets, system_prompt(arguments), config.gain_rule, 0.0 if in_nats else config.gain_threshold)
    if config.gain_noise and not in_nats:
        critic.threshold = _noise_level(run, name, critic, config.gain_noise)
    yield critic


def _noise_level(run: Run, name: str, critic: GainCritic, quantile: float) -> float:
    """The noise level of gains in nats: the one that the critic's stage "rank" wrote, which removes it where what it depends on has changed; else measured."""
    path = run.artifact(name, NOISE_LEVEL)
    if name in run.config.algorithms and path.exists():  # else the settings are those of another critic
        return float(read_object(path)["nats"])
    level = noise_level(critic, list(iter_trajectories(run)), quantile, derive_seed(run.seed, "gain noise"))
    _log.info("gain: the noise level is %.2f nats", level)
    return level


def keep_noise_level(run: Run, name: str) -> None:
    """Measure the noise level of a critic that has one, once; writes noise_level.json.

    Raises:
        NoNoiseError: If it cannot be measured.
    """
    path = run.artifact(name, NOISE_LEVEL)
    if kind_of(run, name).scoring == "gain" and settings_of(run, name).gain_noise and not path.exists():
        with open_gain(run, name) as critic:
            write_json(path, {"nats": critic.threshold})


def open_oracle(run: Run, name: str) -> Opened:
    """Open an oracle of the environment."""
    return run.record.open_oracle(name, run.config, all_tasks(run))


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
