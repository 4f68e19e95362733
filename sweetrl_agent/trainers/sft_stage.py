"""The SFT stage, which makes the initial policy: of the tiny model, or of a pretrained one by LoRA adapters that are merged afterwards.

A pretrained model does not know the protocol of a dialogue: at first it answers in its first message, or goes on in prose. A few hundred demonstrations
teach that. Models that converse by themselves do without (`--sft_dialogues 0`).

Trainers are imported where they are made: that takes seconds, and every command of a run imports this module.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import transformers

from sweetrl_agent.config.packaged import copy_to, differences
from sweetrl_agent.core.environment import Demonstrations
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.core.run import Run, demonstrated_tasks
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.models.loading import initial_model, load_tokenizer, system_prompt
from sweetrl_agent.models.tiny import build_model, build_tokenizer
from sweetrl_agent.trainers.demonstration_file import dialogue, file_dialogues
from sweetrl_agent.trainers.running import atomic_folder, trainer_arguments

_log = logging.getLogger(__name__)
Message = Mapping[str, Any]


def demonstrations(run: Run) -> Demonstrations:
    """Demonstrations for SFT: the first dialogues of the given file, or the environment's own of the given source or of the training tasks.

    Raises:
        ColBenchError: If a row is not a dialogue, or the file is one that `file_dialogues` refuses.
    """
    if run.config.demonstration_file:
        return file_dialogues(run)
    demonstrate = run.record.demonstrations if run.config.is_tiny else run.record.pretrained_demonstrations
    talks: Any = demonstrate(demonstrated_tasks(run), run.config.sft.sft_dialogues, run.seed)
    where = f"The demonstrations of {run.config.task.env}"
    return [dialogue(talk if isinstance(talk, dict) else {"messages": talk}, where, i) for i, talk in enumerate(talks, 1)]


def train_initial(run: Run) -> None:
    """Make the initial policy in initial/, a folder in the format of pretrained models: by SFT, or the package's where it fits."""
    if not run.config.has_sft:
        return
    if run.config.initial_policy == "packaged":
        with atomic_folder(run.path("initial")) as beside:
            copy_to(beside)
        return
    if run.config.is_tiny and run.config.sft.initial_policy == "packaged":
        other = differences(run.config)
        if not any(text.startswith("env ") for text in other):  # another environment cannot have it
            _log.info("The initial policy of the package is for other settings, so SFT trains one: %s.", ", ".join(other[:3]))
    from sweetrl_agent.trainers.stage_training import train_stage

    trainer, tokenizer = sft_trainer(run) if run.config.is_tiny else pretrained_trainer(run)
    rows = train_stage(trainer, tokenizer, run.path("initial"), "sft", run.callbacks, is_merged=not run.config.is_tiny)
    run.add_metrics("sft", rows)


def sft_trainer(run: Run) -> tuple[Any, Any]:
    """The trainer of SFT on demonstrations of the training tasks, and its tokenizer."""
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    from sweetrl_agent.trainers.sft import CloningTrainer

    config, folder = run.config.sft, run.path("initial")
    transformers.set_seed(run.seed)
    dialogues = demonstrations(run)
    tokenizer = build_tokenizer(
        (m["content"] for dialogue in dialogues for m in dialogue),
        config.tiny_vocab_size, run.record.max_token_length, run.record.pieces,
    )  # fmt: skip
    dataset = _in_order(run, dialogues, tokenizer)
    arguments = trainer_arguments(
        folder, run.seed, run.config.model, config.sft_batch, config.sft_batch,
        config.sft_learning_rate, 1,
    )  # fmt: skip
    trainer = CloningTrainer(
        muon_learning_rate=config.sft_muon_learning_rate,
        model=build_model(tokenizer, config.tiny_hidden_size, config.tiny_layers, run.seed),
        args=transformers.TrainingArguments(**arguments, train_sampling_strategy="sequential"),
        data_collator=DataCollatorForLanguageModeling(pad_token_id=tokenizer.pad_token_id),
        train_dataset=dataset,
        processing_class=tokenizer,
    )
    return trainer, tokenizer


def pretrained_trainer(run: Run) -> tuple[Any, Any]:
    """The trainer of SFT of a pretrained model, with new adapters whether or not `lora` is set, and its tokenizer."""
    from trl import SFTConfig, SFTTrainer

    config, folder, arguments = run.config.sft, run.path("initial"), replace(run.config.model, lora=True)
    transformers.set_seed(run.seed)
    tokenizer = load_tokenizer(arguments.model, arguments)
    instructions = system_prompt(arguments)
    dataset = _in_order(run, [_instructed(dialogue, instructions) for dialogue in demonstrations(run)], tokenizer)
    given = trainer_arguments(
        folder, run.seed, arguments, config.sft_batch, min(config.sft_micro_batch, config.sft_batch),
        config.sft_learning_rate, 1,
    )  # fmt: skip
    trainer = SFTTrainer(
        **initial_model(arguments.model, arguments),
        args=SFTConfig(**given, max_length=None, train_sampling_strategy="sequential"),
        train_dataset=dataset,
        processing_class=tokenizer,
    )
    return trainer, tokenizer


def _in_order(run: Run, dialogues: Sequence[Any], tokenizer: Any) -> Any:
    """Tokens and labels of dialogues, in the order of all epochs: batches of similar length."""
    from sweetrl_agent.trainers.sft import bucketed_order, sft_dataset

    config = run.config.sft
    dataset = sft_dataset(dialogues, Chat(tokenizer, run.config.model.reasoning), run.config.model.history)
    order = bucketed_order([len(ids) for ids in dataset["input_ids"]], config.sft_batch, config.sft_epochs, run.seed)
    return dataset.select(order)


def _instructed(dialogue: Sequence[Message], instructions: str) -> list[Message]:
    """A dialogue behind the agent's instructions; hidden information that it starts with follows them, as in a critic's dialogue."""
    own = dialogue[0]["content"] if dialogue[0]["role"] == "system" else ""
    rest = dialogue[1:] if own else dialogue
    return [*system_message(instructions, own), *rest]
