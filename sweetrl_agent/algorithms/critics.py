"""The critics of a comparison: SWEET-RL's own, its ablations, and baselines. `sweet` uses them.

Each critic has a subfolder of the run folder; the files of SWEET-RL's own critic are in the run folder itself.

Source: arXiv:2503.15478, Table 3 and Figure 3a; "untrained" is what the released ranking script computes before any training.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from transformers import AutoModelForImageTextToText, AutoProcessor, TrainingArguments, set_seed

from colbench_gym.files import iter_rows, read_rows
from sandboxes.browser import Browser, make_browser
from sweetrl_agent.core.critic import Critic
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.registry import Registry
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import require, setting
from sweetrl_agent.critics.advantage import AdvantageCritic
from sweetrl_agent.critics.credit import FORMS, SUM
from sweetrl_agent.critics.gain import ALL, DIFFERING, RULES, GainCritic, Targets
from sweetrl_agent.critics.heads import HeadCritic, TurnHead
from sweetrl_agent.critics.judge import JudgeCritic
from sweetrl_agent.critics.vision import Views, VisionCritic, VisionHead
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.models.loading import adapted, load_chat, load_model, load_tokenizer, system_prompt
from sweetrl_agent.rollouts.collection import iter_trajectories
from sweetrl_agent.rollouts.replies import replies_at
from sweetrl_agent.trainers.critic import pair_trainer
from sweetrl_agent.trainers.heads import HeadTrainer, Loss, encoded_rows, pair_rows
from sweetrl_agent.trainers.running import train_stage, trainer_arguments
from sweetrl_agent.trainers.trl.on_disk import on_disk
from sweetrl_agent.trainers.vision import VisionTrainer, vision_rows

SWEET = "sweet"
#: Oracles: critics that compute the exact advantage, if the environment's record supports it.
ORACLES = ("exact", "marginal")
Opened = AbstractContextManager[Critic]


@dataclass(frozen=True)
class CriticConfig:
    """Settings of stage 1, the critic; shared by all critics."""

    form: str = setting(
        "paper",
        f"Training form, one of {FORMS}: the sum over turns of each turn's mean log-ratio, or one mean over all tokens.",
    )
    reference_hidden: bool = setting(
        False,
        "The reference model sees the hidden information in ranking; true in the paper, false in the released code.",
    )
    critic_hidden: bool = setting(True, "The critic sees the hidden information.")
    judge_model: str = setting(
        "", "Model of the LLM as judge, a folder or hub name; empty for the initial policy's model. Used by the critic 'judge'."
    )
    vision_model: str = setting("", "Vision-language model of the critic 'vision_head', a folder or hub name. Used on pages.")
    gain_model: str = setting(
        "", "Model that the critic 'gain' reads with, a folder or hub name; empty for the initial policy's model."
    )
    gain_rule: str = setting(
        "sum", f"Gain of a reply from those of the reference's tokens, one of {tuple(RULES)}. Used by the critic 'gain'."
    )
    gain_threshold: float = setting(
        0.0, "Noise level of gains in nats: gains above it score 1, others 0; 0 for the gain itself. Used by the critic 'gain'."
    )
    gain_tokens: str = setting(
        ALL,
        f"Tokens of the reference that count, one of {(ALL, DIFFERING)}: where the programs of the family differ (embedded tasks).",
    )
    critic_learning_rate: float = setting(1e-4, "Learning rate of the critic; 2e-7 in the paper (8B model).")
    critic_beta: float = setting(0.1, "Beta of equation 2; 0.1 in the paper.")
    critic_nll: float = setting(0.01, "Weight of the NLL term; 0.01 in the paper.")
    critic_batch: int = setting(8, "Pairs per optimizer step; 8 in the paper.", least=1)
    critic_micro_batch: int = setting(8, "Pairs per forward pass.", least=1)
    critic_epochs: float = setting(1.0, "Epochs of the critic; 4 in the paper.")
    critic_max_length: int = setting(
        2048, "Maximum length in tokens; longer pairs are skipped. 8192 in the released code.", least=1
    )

    def __post_init__(self) -> None:
        """Refuse an unknown form, and a batch that is not a multiple of the micro-batch."""
        require("form", self.form, FORMS)
        require("gain_rule", self.gain_rule, tuple(RULES))
        require("gain_tokens", self.gain_tokens, (ALL, DIFFERING))
        require_whole("critic", self.critic_batch, self.critic_micro_batch)


def require_whole(stage: str, batch: int, micro_batch: int) -> None:
    """Refuse a batch that is not a multiple of the micro-batch."""
    if batch % micro_batch:
        raise ValueError(f"`{stage}_batch` must be a multiple of `{stage}_micro_batch`, got {batch} and {micro_batch}.")


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
        scoring: What its passes are, for the forecast: "ratios" of two models, a "head", a "judge", a "gain"; "oracle" for none, "" for unknown ones.
    """

    title: str
    open: Callable[[Run, str], Opened]
    train: Callable[[Run, str], None] | None = None
    uses_hidden: bool = True
    needs: frozenset[str] = frozenset({"hidden"})
    module: str = __name__
    scoring: str = ""

    @property
    def has_replies(self) -> bool:
        """Whether its `rank` gets the other side's replies to the candidates: it requires snapshots."""
        return "snapshot" in self.needs


def settings_of(run: Run, name: str) -> CriticConfig:
    """Settings of a critic in a run: those of SWEET-RL with it, or of the critic that the run trains with."""
    algorithms = run.config.algorithms
    with_critic = next((algorithm.config for algorithm in algorithms.values() if algorithm.critic), CriticConfig())
    config: CriticConfig = algorithms[name].config if name in algorithms else with_critic
    return config


def kind_of(run: Run, name: str) -> CriticKind:
    """The kind of a critic of a run. A user-defined one is registered in the process of the command alone."""
    algorithm = run.config.algorithms.get(name)
    kind: CriticKind = algorithm.kind if algorithm is not None else CRITICS[name]
    return kind


def hidden_for(run: Run, name: str, hidden: Any) -> Any:
    """The hidden information that a critic sees, in the form in which it is given; "" if it sees none."""
    return hidden if kind_of(run, name).uses_hidden and settings_of(run, name).critic_hidden else ""


def train_advantage(run: Run, name: str, form: str = "", uses_hidden: bool = True) -> None:
    """Train a critic of equations 2 and 3 on outcome_pairs.jsonl; `form` defaults to the setting."""
    config = settings_of(run, name)
    set_seed(run.seed)
    uses_hidden = uses_hidden and config.critic_hidden
    pairs = (
        {"hidden": row["hidden"] if uses_hidden else "", "chosen": row["chosen"], "rejected": row["rejected"]}
        for row in iter_rows(run.path("outcome_pairs.jsonl"))
    )
    trainer = pair_trainer(
        run.initial_model, run.config.model, pairs, critic_folder(run, name), critic_arguments(run, name), form=form or config.form,
        beta=config.critic_beta, nll_coef=config.critic_nll, max_length=config.critic_max_length, noun=run.record.hidden_noun,
    )  # fmt: skip
    _train(run, name, trainer, trainer.processing_class)


def train_head(run: Run, name: str, loss: Loss) -> None:
    """Train a critic with a head on the same data: outcome pairs for "regression", all trajectories for "value"."""
    config, model = settings_of(run, name), run.config.model
    set_seed(run.seed)
    tokenizer, instructions = load_tokenizer(run.initial_model, model), system_prompt(model)
    if loss == "regression":
        groups = pair_rows(iter_rows(run.path("outcome_pairs.jsonl")))
    else:
        groups = (
            [{"messages": t.messages, "hidden": t.hidden, "success": t.metrics["success"]}]
            for t in iter_trajectories(run)
            if not t.is_void
        )
    longest = config.critic_max_length
    dataset = on_disk(
        encoded_rows(groups, Chat(tokenizer, model.reasoning), instructions, longest, run.record.hidden_noun),
        critic_folder(run, name),
        none=f"All dialogues are longer than `critic_max_length`={longest} tokens; raise it.",
    )
    trainer = HeadTrainer(
        loss=loss,
        beta=config.critic_beta,
        model=TurnHead(adapted(load_model(run.initial_model, run.initial_model, model), model)),
        args=TrainingArguments(**critic_arguments(run, name), remove_unused_columns=False),
        train_dataset=dataset,
    )
    _train(run, name, trainer, tokenizer)


def train_vision(run: Run, name: str) -> None:
    """Train a head on a vision-language model, with rendered pages, on outcome_pairs.jsonl."""
    config = settings_of(run, name)
    base = config.vision_model
    set_seed(run.seed)
    rows = [{**row, "hidden": hidden_for(run, name, row["hidden"])} for row in read_rows(run.path("outcome_pairs.jsonl"))]
    with make_browser(run.config.task.sandbox_spec()) as browser:
        views = _views(run, base, browser)
        model = load_model(base, base, run.config.model, AutoModelForImageTextToText)
        trainer = VisionTrainer(
            beta=config.critic_beta,
            views=views,
            model=VisionHead(adapted(model, run.config.model)),
            args=TrainingArguments(**critic_arguments(run, name), remove_unused_columns=False),
            train_dataset=vision_rows(rows),
        )
        _train(run, name, trainer, views.processor)


def critic_arguments(run: Run, name: str) -> dict[str, Any]:
    """Arguments of the configuration of a critic's trainer."""
    config = settings_of(run, name)
    return trainer_arguments(
        critic_folder(run, name), run.seed, run.config.model, config.critic_batch, config.critic_micro_batch,
        config.critic_learning_rate, config.critic_epochs,
    )  # fmt: skip


def _train(run: Run, name: str, trainer: Any, tokenizer: Any) -> None:
    stage = stage_name("critic", name)
    run.add_metrics(stage, train_stage(trainer, tokenizer, critic_folder(run, name), stage, run.callbacks))


@contextmanager
def open_advantage(
    run: Run, name: str, reference_hidden: bool | None = None, is_normalised: bool = True, is_trained: bool = True
) -> Iterator[Critic]:
    """Open a critic of log-ratios; the untrained one is the initial policy itself. `reference_hidden` defaults to the setting."""
    model, start = run.config.model, run.initial_model
    critic = load_model(str(critic_folder(run, name)) if is_trained else start, start, model)
    reference = None if model.lora and is_trained else load_model(start, start, model)
    sees = settings_of(run, name).reference_hidden if reference_hidden is None else reference_hidden
    yield AdvantageCritic(
        critic, reference, load_chat(start, model), is_normalised, sees, system_prompt(model), run.record.hidden_noun
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
    base, folder = settings_of(run, name).vision_model, critic_folder(run, name)
    scorer = VisionHead(load_model(str(folder), base, run.config.model, AutoModelForImageTextToText)).load_head(folder)
    with make_browser(run.config.task.sandbox_spec()) as browser:
        yield VisionCritic(scorer, _views(run, base, browser))


def _views(run: Run, base: str, browser: Browser) -> Views:
    processor = AutoProcessor.from_pretrained(base, revision=run.config.model.revision, trust_remote_code=False)
    return Views(processor, browser, run.record)


@contextmanager
def open_judge(run: Run, name: str) -> Iterator[Critic]:
    """Open the judge, by default on the initial policy's model (see `judge_model`)."""
    judge = settings_of(run, name).judge_model or run.initial_model
    model, chat = load_model(judge, judge, run.config.model), load_chat(judge, run.config.model)
    yield JudgeCritic(model, chat, noun=run.record.hidden_noun)


@contextmanager
def open_gain(run: Run, name: str) -> Iterator[Critic]:
    """Open the information gain, by default of the initial policy's model (see `gain_model`)."""
    config, arguments = settings_of(run, name), run.config.model
    reader = config.gain_model or run.initial_model
    tasks = [task for of_split in (run.train, *run.held_out.values()) for task in of_split]
    alternatives = (lambda hidden: run.record.alternatives(hidden, tasks)) if config.gain_tokens == DIFFERING else None
    targets = Targets(load_chat(reader, arguments), run.record.answer_prefix, alternatives)
    model = load_model(reader, reader, arguments)
    yield GainCritic(model, targets, system_prompt(arguments), config.gain_rule, config.gain_threshold)


def open_oracle(run: Run, name: str) -> Opened:
    """Open an oracle of the environment."""
    return run.record.open_oracle(
        name, run.config, [task for of_split in (run.train, *run.held_out.values()) for task in of_split]
    )


def _ratios(title: str, form: str = "", uses_hidden: bool = True, **opened: Any) -> CriticKind:
    """A trained critic of log-ratios; `opened` are arguments of `open_advantage`."""
    train = partial(train_advantage, form=form, uses_hidden=uses_hidden)
    needs = frozenset({"hidden"} if uses_hidden else ())
    return CriticKind(title, partial(open_advantage, **opened), train, uses_hidden, needs, scoring="ratios")


def _head(title: str, loss: Loss) -> CriticKind:
    return CriticKind(title, open_head, partial(train_head, loss=loss), needs=frozenset(), scoring="head")


def _oracle(title: str) -> CriticKind:
    return CriticKind(f"{title} (oracle)", open_oracle, needs=frozenset(), scoring="oracle")


_OURS: dict[str, CriticKind] = {
    SWEET: _ratios("SWEET-RL"),
    "regression_head": _head("w/ regression head", "regression"),
    "no_hidden": _ratios("w/o train-time information", uses_hidden=False),
    "no_normalisation": _ratios("w/o normalisation", form=SUM, is_normalised=False),
    "paper": _ratios("paper's form, paper's reference", form="paper", reference_hidden=True),
    "paper_plain": _ratios("paper's form, reference without hidden information", form="paper", reference_hidden=False),
    "released": _ratios("released form, reference without hidden information", form="released", reference_hidden=False),
    "value_head": _head("value function", "value"),
    "vision_head": CriticKind(
        "w/ regression head on a vision-language model", open_vision, train_vision, needs=frozenset({"hidden", "pages"})
    ),
    "judge": CriticKind("LLM as judge", open_judge, needs=frozenset(), scoring="judge"),
    "untrained": CriticKind(
        "untrained critic", partial(open_advantage, reference_hidden=False, is_trained=False), scoring="ratios"
    ),
    "gain": CriticKind("information gain", open_gain, needs=frozenset({"hidden", "snapshot"}), scoring="gain"),
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


def critic_folder(run: Run, name: str) -> Path:
    """Path of a critic's model."""
    return run.artifact(name, "critic")


def stage_name(stage: str, name: str) -> str:
    """Name of a stage for a critic: the stages of SWEET-RL's own critic have no suffix."""
    return stage if name == SWEET else f"{stage} {name}"


def open_critic(run: Run, name: str = SWEET) -> Opened:
    """Open a critic of a run."""
    return kind_of(run, name).open(run, name)


@contextmanager
def open_ranker(run: Run, name: str) -> Iterator[Callable[[str, Messages, str, Sequence[str]], list[float]]]:
    """Open a critic as a function that scores candidates: of the task's id, the dialogue, what is hidden at this turn, and the candidates.

    A critic that requires snapshots also gets the replies to the candidates, of an environment that takes the dialogue's turns again.
    """
    has_replies = kind_of(run, name).has_replies
    with open_critic(run, name) as critic, ExitStack() as stack:
        tasks = [task for of_split in (run.train, *run.held_out.values()) for task in of_split]
        env = stack.enter_context(closing(run.environment(tasks, 1))).envs[0] if has_replies else None

        def rank(task_id: str, messages: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
            more = () if env is None else (replies_at(env, task_id, run.seed, messages, texts),)
            return cast(Any, critic).rank(messages, hidden_for(run, name, hidden), texts, *more)  # type: ignore[no-any-return]

        yield rank
