"""The settings of SWEET-RL's first stage, the critic, and where a critic's files are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import changed, require, setting
from sweetrl_agent.critics.credit import FORMS
from sweetrl_agent.critics.gain import ALL, DIFFERING, RULES
from sweetrl_agent.trainers.running import trainer_arguments

SWEET = "sweet"


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
        "",
        "Model that the critic 'gain' reads with, a folder or hub name; 'pretrained' for `model` as it is before SFT, empty for the initial policy's model.",
    )
    gain_rule: str = setting(
        "sum", f"How the gains of the reference's tokens are combined, one of {tuple(RULES)}. Used by the critic 'gain'."
    )
    gain_threshold: float = setting(
        0.0, "Noise level of gains in nats: gains above it score 1, others 0; 0 for the gain itself. Used by the critic 'gain'."
    )
    gain_noise: float = setting(
        0.0,
        "Quantile of the gains of uninformative replies (from other tasks), as the noise level in place of `gain_threshold`; 0 keeps `gain_threshold`. "
        "Used by the critic 'gain'.",
        least=0,
        most=1,
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
    critic_replies: bool = setting(
        True,
        "The critic reads the other side's replies. False hides them ('Noted.') and leaves the last turn, the answer, out of the loss: later turns then "
        "cannot be scored by the replies. Used by critics of log-ratios.",
    )
    critic_held_out: float = setting(
        0.0,
        "Share of the tasks held out from the critic's training: the critic of the epoch with the lowest loss on their pairs is kept. 0 keeps the last step's. "
        "Used by critics of log-ratios.",
        least=0,
        most=0.5,
    )
    critic_max_length: int = setting(
        2048, "Maximum length in tokens; longer pairs are skipped. 8192 in the released code.", least=1
    )

    def __post_init__(self) -> None:
        """Refuse an unknown form, and a batch that is not a multiple of the micro-batch."""
        require("form", self.form, FORMS)
        require("gain_rule", self.gain_rule, tuple(RULES))
        require("gain_tokens", self.gain_tokens, (ALL, DIFFERING))
        require_whole("critic", self.critic_batch, self.critic_micro_batch)


def without_effect(config: CriticConfig, ignored: Collection[str]) -> list[str]:
    """Settings that differ from their defaults and that a critic does not read; a measured noise level replaces a stated one.

    Args:
        config: The settings.
        ignored: Names of those that it does not read.
    """
    unread = {*ignored, *(["gain_threshold"] if config.gain_noise else [])}
    return changed(config, unread)


def require_whole(stage: str, batch: int, micro_batch: int) -> None:
    """Refuse a batch that is not a multiple of the micro-batch."""
    if batch % micro_batch:
        raise ValueError(f"`{stage}_batch` must be a multiple of `{stage}_micro_batch`, got {batch} and {micro_batch}.")


def settings_of(run: Run, name: str) -> CriticConfig:
    """Settings of a critic in a run: those of SWEET-RL with it, or of the critic that the run trains with."""
    algorithms = run.config.algorithms
    with_critic = next((algorithm.config for algorithm in algorithms.values() if algorithm.critic), CriticConfig())
    config: CriticConfig = algorithms[name].config if name in algorithms else with_critic
    return config


def critic_arguments(run: Run, name: str) -> dict[str, Any]:
    """Arguments of the configuration of a critic's trainer."""
    config = settings_of(run, name)
    return trainer_arguments(
        critic_folder(run, name), run.seed, run.config.model, config.critic_batch, config.critic_micro_batch,
        config.critic_learning_rate, config.critic_epochs,
    )  # fmt: skip


def critic_folder(run: Run, name: str) -> Path:
    """Path of a critic's model."""
    return run.artifact(name, "critic")


def stage_name(stage: str, name: str) -> str:
    """Name of a stage for a critic: the stages of SWEET-RL's own critic have no suffix."""
    return stage if name == SWEET else f"{stage} {name}"
