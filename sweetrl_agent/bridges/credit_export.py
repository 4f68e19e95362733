"""The work of `python -m sweetrl_agent.credit`: the credit of a run's collected dialogues by a critic or by the rule of an on-policy algorithm."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from colbench_gym.errors import ColBenchError
from colbench_gym.files import write_json, write_rows
from colbench_gym.scoring.intervals import mean_interval
from sandboxes.logs import shown_logs
from sandboxes.programs import program_name
from sweetrl_agent.algorithms.critic_settings import critic_folder, settings_of
from sweetrl_agent.algorithms.critics import CRITICS, check_needs, hidden_for, kind_of, open_critic
from sweetrl_agent.algorithms.ranking import State
from sweetrl_agent.algorithms.registry import ALGORITHMS, refuse_missing, register
from sweetrl_agent.algorithms.settings import read
from sweetrl_agent.bridges.turn_credit import DEFAULT, RAW, SCHEMA, Scale, TurnCredit, credit_by, turn_credit
from sweetrl_agent.config.command_line import ending_with
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.settings import build, require, section, setting
from sweetrl_agent.evaluation.algorithm_credit import fitted, repeated, tokenized
from sweetrl_agent.evaluation.recorded_run import open_recorded
from sweetrl_agent.models.loading import load_chat, system_prompt
from sweetrl_agent.rollouts.collection import iter_trajectories
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm
from sweetrl_agent.trainers.run import Run
from sweetrl_agent.trainers.stage_runner import set_threads
from sweetrl_agent.trainers.views import at_turns


@dataclass
class CreditArguments:
    """Whose dialogues get credit, by which rule, and how it becomes advantages."""

    run: str = setting("", "Folder of a run with collected dialogues (trajectories.jsonl).")
    critic: str = setting(
        "gain",
        "A critic (gain, sweet, untrained, exact, ...), or an on-policy algorithm that gives credit to turns (infopo, igpo, gigpo, grpo, vineppo, turn_ppo, archer, ...): a name or 'my_package:NAME'.",
    )
    out: str = setting("", "File of the rows, in JSON lines; FILE.about.json describes them.")
    outcome: str = setting(
        "",
        "'standardized' over the task's episodes, 'centered', or 'none'. Empty: 'standardized' for critics, 'none' for algorithms.",
    )
    weight: float = setting(1.0, "Weight of the credit.")
    center: str = setting(
        "",
        "Mean that is subtracted from the credit: of the 'task', of the 'turn' index, or 'none'. Empty: 'task' for critics, 'none' for algorithms.",
    )
    scale: str = setting(
        "", "Whether the credit is divided by its standard deviation over the 'task', or 'none'. Empty: as `center`."
    )
    log_level: str = setting("warning", "Messages that are shown.")

    def made(self, is_algorithm: bool) -> Scale:
        """The scale, with its defaults for critics or algorithms."""
        default = RAW if is_algorithm else DEFAULT
        return Scale(self.outcome or default.outcome, self.weight, self.center or default.center, self.scale or default.scale)


SECTIONS = (section("credit", CreditArguments),)


def run_job(words: Sequence[str] | None, description: str | None) -> int:
    """Write the credit of a run's dialogues, and print what was written; returns the exit status."""
    with ending_with(ColBenchError, ValueError, ImportError, OSError):
        words = list(sys.argv[1:] if words is None else words)
        words = ["--run", *words] if words and not words[0].startswith("-") else words
        settings = read(words, program_name("sweetrl_agent.credit"), description, SECTIONS)
        given = build(CreditArguments, {name: value for name, value in settings.items() if "." not in name})
        if not given.run or not given.out:
            raise ValueError(
                "Give the folder of a run and `--out FILE`, as in `python -m sweetrl_agent.credit runs/first --out credit.jsonl`."
            )
        with shown_logs(given.log_level):
            about = export(given, {name: value for name, value in settings.items() if "." in name})
    print(f"{about['rows']} rows of {about['episodes']} dialogues: {given.out}")
    if accuracy := about.get("accuracy"):
        low, high = accuracy["ci95"]
        print(
            f"rank correlation with the exact advantage: {accuracy['rank_correlation']:.2f} ({low:.2f} to {high:.2f}), {accuracy['n']} tasks"
        )
    return 0


def export(given: CreditArguments, settings: dict[str, Any]) -> dict[str, Any]:
    """Write the rows and what they are; returns the latter.

    Args:
        given: What to write.
        settings: Settings of the critic or the algorithm, by full name, which override those of the run.

    Raises:
        ValueError: If the run has no dialogues, or the rule does not fit it.
        ColBenchError: If files of the run are not as they were written, or a service fails.
    """
    run, name = _open(given, settings)
    is_algorithm = name not in CRITICS
    set_threads(run.config.run.threads)
    episodes = list(iter_trajectories(run))
    scale, model = given.made(is_algorithm), run.config.model
    credit = algorithm_credit(run, name, episodes) if is_algorithm else critic_credit(run, name, episodes)
    by_episode = dict(zip((e.key for e in episodes), credit, strict=True))
    rows = turn_credit(
        episodes, lambda valid: [by_episode[e.key] for e in valid], load_chat(run.initial_model, model).tokenizer, system_prompt(model), scale,
        model.reasoning,
    )  # fmt: skip
    about: dict[str, Any] = {
        "schema": SCHEMA, "run": given.run, "critic": name, "settings": settings, "scale": asdict(scale), "model": run.initial_model, "temperature": model.temperature, "episodes": len(episodes),
        "rows": len(rows), "unit": _unit(run, name), "accuracy": _accuracy(run, episodes, credit),
    }  # fmt: skip
    out = Path(given.out)
    write_rows(out, (row.to_row() for row in rows))
    write_json(out.with_name(f"{out.name}.about.json"), about)
    return about


def critic_credit(run: Run, name: str, episodes: Sequence[Episode]) -> list[TurnCredit]:
    """The credit of the turns of recorded dialogues by a critic of the run.

    Raises:
        ValueError: If the run has not trained it.
    """
    kind = kind_of(run, name)
    if kind.train is not None and not critic_folder(run, name).exists():
        raise ValueError(
            f"{run.folder} has no trained critic {name!r}: train with `--critic {name}`, or take 'gain' or 'untrained', which need no training."
        )
    with open_critic(run, name) as critic:
        return [
            [None] * len(e.turns)
            if e.is_void
            else credit_by(critic, e.messages, hidden_for(run, name, e.hidden), kind.has_replies)
            for e in episodes
        ]


def algorithm_credit(run: Run, name: str, episodes: Sequence[Episode]) -> list[TurnCredit]:
    """The advantages that an on-policy algorithm gives the turns of recorded dialogues of the initial policy; of tokens, their mean over the turn.

    Its critic, if it has one, is trained first. For an algorithm that needs snapshots the dialogues are taken again in the environment.
    """
    algorithm, _ = fitted(run, name)
    algorithm.sampler = algorithm.make_sampler(algorithm.run)
    valid = [episode for episode in episodes if not episode.is_void]
    with closing(algorithm.sampler), closing(run.environment(run.train, 1)) as envs:
        if algorithm.requires & {"snapshot", "anchor"}:
            valid = [_with_states(algorithm, envs.envs[0], episode) for episode in valid]
        of_valid = iter(_turns_of(algorithm, valid))
    return [[None] * len(e.turns) if e.is_void else next(of_valid) for e in episodes]


def _with_states(algorithm: OnPolicyAlgorithm, env: Any, episode: Episode) -> Episode:
    again = repeated(env, algorithm, State.collected(algorithm.run, episode, len(episode.turns) + 1))
    return replace(again, index=episode.index, turns=episode.turns, metrics=episode.metrics, reward=episode.reward)


def _turns_of(algorithm: OnPolicyAlgorithm, episodes: Sequence[Episode]) -> list[TurnCredit]:
    batch = algorithm.batch(tokenized(algorithm, episodes), len(algorithm.metrics))
    numbered = [(episode, range(1, len(episode.turns) + 1)) for episode in episodes]
    if not algorithm.credits_played:
        return [[algorithm.turn_credit(replace(batch, episodes=[e]), [turn])[0] for turn in turns] for e, turns in numbered]
    advantages = algorithm.credit(batch).advantages
    return [
        [float(np.mean(at_turns([row], [e], [turn], algorithm.values_per_token)[0])) for turn in turns]
        for row, (e, turns) in zip(advantages, numbered, strict=True)
    ]


def _unit(run: Run, name: str) -> str:
    """Nats for gains; none for other credit, also for gains that count as 1 above a noise level."""
    if name != "gain":
        return ""
    config = settings_of(run, name)
    return "" if config.gain_noise or config.gain_threshold else "nats"


def _accuracy(run: Run, episodes: Sequence[Episode], credit: Sequence[TurnCredit]) -> dict[str, Any] | None:
    """Spearman's rank correlation of credit and exact advantage over the turns of each task, its mean over tasks and 95% interval; None without the oracle."""
    from scipy import stats  # takes a second to load

    if "exact" not in run.record.oracles(run.config):
        return None
    by_task: dict[str, list[tuple[float, float]]] = {}
    with open_critic(run, "exact") as exact:
        for episode, of_turns in zip(episodes, credit, strict=True):
            if not episode.is_void:
                truth = credit_by(exact, episode.messages, episode.hidden, needs_reply=False)
                pairs = [(c, t) for c, t in zip(of_turns, truth, strict=True) if c is not None and t is not None]
                by_task.setdefault(episode.task_id, []).extend(pairs)
    correlations = [
        float(stats.spearmanr(*zip(*pairs, strict=True)).statistic)
        for pairs in by_task.values()
        if all(len({*values}) > 1 for values in zip(*pairs, strict=True)) and pairs
    ]
    if not correlations:
        return None
    low, high = mean_interval(correlations)
    return {
        "rank_correlation": round(float(np.mean(correlations)), 4),
        "ci95": [round(low, 4), round(high, 4)],
        "n": len(correlations),
    }


def _open(given: CreditArguments, settings: dict[str, Any]) -> tuple[Run, str]:
    """The run with the critic or algorithm, and the name of this."""
    folder = Path(given.run)
    if not (folder / "trajectories.jsonl").is_file():
        raise ValueError(
            f"{given.run!r} has no collected dialogues (trajectories.jsonl): name a run of `sweet`, `rft` or `mtdpo`."
        )
    if ":" not in given.critic:
        rules = (name for name, rule in ALGORITHMS.items() if name in CRITICS or isinstance(rule, OnPolicyAlgorithm))
        require("critic", given.critic, tuple(rules))
    name = register(given.critic, "critic")
    run = open_recorded(given.run, [name, "exact"], settings)
    config = run.config
    if name in CRITICS:
        check_needs([name], config)
    refuse_missing([config.algorithms[name]], config.record.capabilities(config), config.task.env)
    if name not in CRITICS and not isinstance(config.algorithms[name], OnPolicyAlgorithm):
        raise ValueError(f"`critic` is a critic or an on-policy algorithm, and {name!r} is neither.")
    run.records.refuse_changed_files(
        ["trajectories.jsonl", "initial/", *([f"{critic_folder(run, name).name}/"] if name in CRITICS else [])]
    )
    return run, name
