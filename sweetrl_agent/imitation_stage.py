"""The stage that makes the tiny model's start; a pretrained model skips it."""

from __future__ import annotations

from transformers import TrainingArguments, set_seed
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from sweetrl_agent.run import Run
from sweetrl_agent.tiny import build_model, build_tokenizer
from sweetrl_agent.trainers.imitation import ImitationTrainer, bucketed_order, imitation_dataset
from sweetrl_agent.trainers.running import train_stage, trainer_arguments


def imitate(run: Run) -> None:
    """Demonstrated dialogues on the training tasks -> start/, a folder like any pretrained model's."""
    if not run.config.is_tiny:
        return
    config, folder = run.config.imitation, run.path("start")
    set_seed(run.seed)
    dialogues = run.world.demonstrate(run.train, config.imitation_dialogues, run.seed)
    tokenizer = build_tokenizer(
        (m["content"] for dialogue in dialogues for m in dialogue),
        config.tiny_vocab_size, run.world.max_token_length, run.world.pieces,
    )  # fmt: skip
    dataset = imitation_dataset(dialogues, tokenizer)
    order = bucketed_order(
        [len(ids) for ids in dataset["input_ids"]], config.imitation_batch, config.imitation_epochs, run.seed
    )
    arguments = trainer_arguments(
        folder, run.seed, run.config.model, config.imitation_batch, config.imitation_batch,
        config.imitation_learning_rate, 1,
    )  # fmt: skip
    trainer = ImitationTrainer(
        muon_learning_rate=config.imitation_muon_learning_rate,
        model=build_model(tokenizer, config.tiny_hidden_size, config.tiny_layers, run.seed),
        args=TrainingArguments(**arguments, train_sampling_strategy="sequential"),
        data_collator=DataCollatorForLanguageModeling(pad_token_id=tokenizer.pad_token_id),
        train_dataset=dataset.select(order),
        processing_class=tokenizer,
    )
    run.add_metrics("imitation", train_stage(trainer, tokenizer, folder, "imitation"))
