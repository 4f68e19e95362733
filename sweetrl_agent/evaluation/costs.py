"""Costs of an algorithm on one seed, computed from the files of its stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from colbench_gym.files import Row, read_rows
from sweetrl_agent.core.algorithm import Algorithm
from sweetrl_agent.data.files import METRICS
from sweetrl_agent.trainers.run import Run
from sweetrl_agent.trainers.running import RANKED_TURNS, SCORED_TOKENS, TRAINED_TOKENS, VERIFIED

#: Meaning of each column, for reports.
COLUMNS = {
    "dialogues": "training episodes, continuations of others included",
    "environment_turns": "agent turns in training episodes, and those that a critic's ranking took for replies and verdicts",
    "simulator_calls": "replies of the other side in them",
    "sandbox_runs": "answers of them, and messages that a verifier read, that were scored in a sandbox",
    "generated_tokens": "tokens sampled for training, candidates included",
    "candidates": "candidates sampled without an environment",
    "scored_tokens": "tokens read during training without being trained on: for values, a ranking, the reference of DPO or a KL term, gains and the likelihood of given texts",
    "trained_tokens": "tokens processed by a model in training steps, user messages included",
    "seconds": "wall time of its training stages, shared ones included",
    "own_seconds": "wall time of its own training stages, shared ones excluded",
    "peak_mib": "peak memory over these stages, MiB",
}
#: Costs that depend on the machine.
OF_MACHINE = ("seconds", "own_seconds", "peak_mib")
#: Costs of an agent of a team, by their names in metrics.
OF_AGENT = {
    "episodes": "dialogues",
    "environment_turns": "environment_turns",
    "generated_tokens": "generated_tokens",
    TRAINED_TOKENS: "trained_tokens",
}


def ledger(run: Run, algorithms: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Costs of each algorithm, by `COLUMNS`. Evaluation is excluded, since it is the same for all.

    Of several agents, "agents" has for each of them the dialogues in which it spoke, "environment_turns", "generated_tokens" and "trained_tokens". The last
    is absent of an agent that is not trained, and where MALT trains one policy for all.
    SFT of the tiny model is excluded too, since it replaces a pretrained model.
    """
    collected = read_rows(run.path("trajectories.jsonl"))
    last = {row["stage"]: row for row in read_rows(run.path("metrics.jsonl"), METRICS)}
    candidates = read_rows(run.path("candidates.jsonl"))
    return {name: _costs(run, run.config.algorithms[name], collected, candidates, last) for name in algorithms}


def _costs(run: Run, algorithm: Algorithm, collected: list[Row], candidates: list[Row], last: dict[str, Row]) -> dict[str, Any]:
    """`last` has the last metrics of every stage; on-policy algorithms count their episodes there."""
    own = list(algorithm.stages)
    shared = [stage for stage in algorithm.shared if stage != "sft"]
    stages = [*shared, *own]
    metrics = [last.get(stage, {}) for stage in stages]
    turns = [turn for row in collected for turn in row["turns"]] if "collect" in shared else []
    episodes = (len(collected) if turns else 0) + sum(row.get("episodes", 0) for row in metrics)
    num_turns = len(turns) + sum(row.get("environment_turns", 0) for row in metrics)
    tokens = sum(len(turn["token_ids"]) or turn.get("usage", (0, 0))[1] for turn in turns) + sum(
        row.get("generated_tokens", 0) for row in metrics
    )
    agents = _of_agents(metrics)
    sampled = candidates if "candidates" in own else []
    ranked = [row for row in metrics if RANKED_TURNS in row]
    ranked_turns, ranked_answers = (sum(row.get(key, 0) for row in ranked) for key in (RANKED_TURNS, VERIFIED))
    return {
        "dialogues": episodes,
        "environment_turns": num_turns + ranked_turns,
        "simulator_calls": _replies(num_turns, episodes, agents) + ranked_turns - ranked_answers,
        "sandbox_runs": episodes + sum(row.get(VERIFIED, 0) for row in metrics) if run.record.has_sandbox else 0,
        "generated_tokens": tokens + sum(sum(row["num_tokens"]) for row in sampled),
        "candidates": sum(len(row["texts"]) for row in sampled),
        "scored_tokens": sum(int(row.get(SCORED_TOKENS, 0)) for row in metrics),
        "trained_tokens": sum(int(row.get(TRAINED_TOKENS, 0)) for row in metrics),
        "seconds": round(sum(run.seconds.get(stage, 0.0) for stage in stages), 1),
        "own_seconds": round(sum(run.seconds.get(stage, 0.0) for stage in own), 1),
        "peak_mib": max((run.peak_mib.get(stage, 0.0) for stage in stages), default=0.0),
        **({"agents": agents} if agents else {}),
    }


def _replies(turns: float, episodes: float, agents: Mapping[str, Mapping[str, float]]) -> float:
    """Replies of the other side: one to each turn but the last of a dialogue; each agent of a team has a dialogue of its own."""
    each = [(of["environment_turns"], of["dialogues"]) for of in agents.values() if "dialogues" in of]
    return sum(of_agent - dialogues for of_agent, dialogues in each or [(turns, episodes)])


def _of_agents(metrics: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Costs of each agent of a team, which metrics have as "AGENT/COST"."""
    agents: dict[str, dict[str, float]] = {}
    for key, value in (item for row in metrics for item in row.items()):
        agent, _, cost = key.rpartition("/")
        if agent and cost in OF_AGENT:
            of_agent = agents.setdefault(agent, {})
            of_agent[OF_AGENT[cost]] = of_agent.get(OF_AGENT[cost], 0) + value
    return agents
