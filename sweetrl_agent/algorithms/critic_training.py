"""Stage 1 of SWEET-RL: critics are trained on the collected dialogues, each into its folder."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from transformers import AutoProcessor, TrainingArguments, set_seed

from colbench_gym.files import Row, iter_rows
from colbench_gym.seeds import derive_seed
from sandboxes.browser import Browser, make_browser
from sweetrl_agent.algorithms.critic_settings import critic_arguments, critic_folder, settings_of, stage_name
from sweetrl_agent.core.messages import without_replies
from sweetrl_agent.core.run import Run
from sweetrl_agent.critics.heads import TurnHead
from sweetrl_agent.critics.vision import Views, VisionHead
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.data.pairs import SIDES
from sweetrl_agent.models.loading import IMAGE_TEXT_TO_TEXT, adapted, load_model, load_tokenizer, system_prompt
from sweetrl_agent.rollouts.collection import iter_trajectories
from sweetrl_agent.trainers.critic import pair_trainer
from sweetrl_agent.trainers.critic_summary import HELD_OUT_PAIRS, PAIRS, summarize
from sweetrl_agent.trainers.heads import HeadTrainer, Loss, encoded_rows, pair_rows
from sweetrl_agent.trainers.stage_training import train_stage
from sweetrl_agent.trainers.trl.on_disk import on_disk
from sweetrl_agent.trainers.vision import VisionTrainer, vision_rows

_log = logging.getLogger(__name__)
NONE: Mapping[str, int] = MappingProxyType({})


def train_advantage(run: Run, name: str, form: str = "", uses_hidden: bool = True, reads_replies: bool = True) -> None:
    """Train a critic of equations 2 and 3 on outcome_pairs.jsonl; `form` defaults to the setting."""
    config = settings_of(run, name)
    set_seed(run.seed)
    uses_hidden, reads_replies = uses_hidden and config.critic_hidden, reads_replies and config.critic_replies
    held_out = _held_out_tasks(run, config.critic_held_out)

    def pairs(is_held_out: bool) -> Iterator[Row]:
        for row in iter_rows(run.path("outcome_pairs.jsonl")):
            if (row["task_id"] in held_out) == is_held_out:
                sides = {side: row[side] if reads_replies else without_replies(row[side]) for side in SIDES}
                yield {"hidden": row["hidden"] if uses_hidden else "", **sides}

    trainer: Any = pair_trainer(
        run.initial_model, run.config.model, pairs(False), critic_folder(run, name), critic_arguments(run, name), pairs(True),
        form=form or config.form, beta=config.critic_beta, nll_coef=config.critic_nll, max_length=config.critic_max_length,
        noun=run.record.hidden_noun, skips_last=not reads_replies,
    )  # fmt: skip
    counts = {PAIRS: len(trainer.train_dataset), HELD_OUT_PAIRS: len(trainer.eval_dataset or ())}
    rows = _train(run, name, trainer, trainer.processing_class, counts)
    for warning in summarize(rows, reads_replies)["warnings"]:
        _log.warning("%s: %s", stage_name("critic", name), warning)


def _held_out_tasks(run: Run, share: float) -> set[str]:
    """Ids of the tasks whose pairs are held out: a share of those with pairs, at least one, and never all."""
    ids = sorted({row["task_id"] for row in iter_rows(run.path("outcome_pairs.jsonl"))})
    count = min(max(1, round(share * len(ids))), len(ids) - 1) if share else 0
    if share and not count:
        _log.warning("`critic_held_out` holds out whole tasks, and %d has pairs: nothing is held out.", len(ids))
    order = np.random.default_rng(derive_seed(run.seed, "held-out pairs")).permutation(len(ids))
    return {ids[i] for i in order[:count]}


def train_head(run: Run, name: str, loss: Loss) -> None:
    """Train a critic with a head on the same data: outcome pairs for "regression", all trajectories for "value"."""
    config, model = settings_of(run, name), run.config.model
    set_seed(run.seed)
    tokenizer, instructions = load_tokenizer(run.initial_model, model), system_prompt(model)
    if loss == "regression":
        groups = pair_rows(_as_seen(run, name, iter_rows(run.path("outcome_pairs.jsonl"))))
    else:
        played = (t for t in iter_trajectories(run) if not t.is_void)
        rows = ({"messages": t.messages, "hidden": t.hidden, "success": t.metrics["success"]} for t in played)
        groups = ([row] for row in _as_seen(run, name, rows))
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


def _as_seen(run: Run, name: str, rows: Iterable[Row]) -> Iterator[Row]:
    """The rows, without hidden information where the critic does not see it."""
    sees = settings_of(run, name).critic_hidden
    return (row if sees else {**row, "hidden": ""} for row in rows)


def train_vision(run: Run, name: str) -> None:
    """Train a head on a vision-language model, with rendered pages, on outcome_pairs.jsonl."""
    config = settings_of(run, name)
    base = config.vision_model
    set_seed(run.seed)
    rows = list(_as_seen(run, name, iter_rows(run.path("outcome_pairs.jsonl"))))
    with make_browser(run.config.task.sandbox_spec()) as browser:
        views = make_views(run, base, browser)
        model = load_model(base, base, run.config.model, IMAGE_TEXT_TO_TEXT)
        trainer = VisionTrainer(
            beta=config.critic_beta,
            views=views,
            model=VisionHead(adapted(model, run.config.model)),
            args=TrainingArguments(**critic_arguments(run, name), remove_unused_columns=False),
            train_dataset=vision_rows(rows),
        )
        _train(run, name, trainer, views.processor)


def make_views(run: Run, base: str, browser: Browser) -> Views:
    """Rendered pages as a vision-language model reads them."""
    processor = AutoProcessor.from_pretrained(base, revision=run.config.model.revision, trust_remote_code=False)
    return Views(processor, browser, run.record)


def _train(run: Run, name: str, trainer: Any, tokenizer: Any, counts: Mapping[str, int] = NONE) -> list[Row]:
    """Train, and record the metrics; the last row has the counts."""
    stage = stage_name("critic", name)
    rows = train_stage(trainer, tokenizer, critic_folder(run, name), stage, run.callbacks)
    rows[-1] |= counts
    run.add_metrics(stage, rows)
    return rows
