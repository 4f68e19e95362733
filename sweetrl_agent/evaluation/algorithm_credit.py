"""Credit accuracy of on-policy algorithms: the numbers that their rules give to turns, on the candidates that critics score too (`credit_accuracy`).

The rule of an algorithm is `OnPolicyAlgorithm.turn_credit`. At every turn of the held-out dialogues each candidate is an episode: the dialogue before it, the
candidate, and what follows by the initial policy. The episodes of a turn are a batch, whose task is the same, so rules that compare episodes compare candidates.

The policy is the initial one and stands still. A value head, or a critic of the algorithm's own, is first trained on as many episodes of the training tasks as the
algorithm plays, with a learning rate of 0 for the policy. The body stands still as well, so a value head is a linear function of the initial policy's states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

from colbench_gym.errors import ColBenchError
from colbench_gym.files import Row, read_rows, write_rows
from sweetrl_agent.algorithms.ranking import Candidates, State
from sweetrl_agent.core.episode import LENGTH, STOP, BranchKey, Episode, Turn, shared_hidden
from sweetrl_agent.core.messages import as_read
from sweetrl_agent.core.progress import progress_bar
from sweetrl_agent.core.run import Run, all_tasks
from sweetrl_agent.evaluation.credit_accuracy import SCORES, STATES, folder_of_algorithm, state_of
from sweetrl_agent.rollouts.replies import refuse_void, retaken, say
from sweetrl_agent.trainers.learner import Learner
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm
from sweetrl_agent.trainers.rounds import Round

#: What is counted for each candidate: dialogues that a model reads in one pass, environment steps, and sampled tokens.
PASSES, STEPS, TOKENS = "passes", "environment_steps", "generated_tokens"


def score(run: Run, name: str, num_tasks: int) -> None:
    """Score the candidates by an algorithm's rule; writes credit/NAME/credit_scores_N.jsonl.

    Every row has "credit" of the candidates and the mean "cost" of one; the first row also has the costs of training a critic, in "fit".
    """
    algorithm, fit = fitted(run, name)
    tasks = all_tasks(run)
    view = _view(run, name, tasks)
    algorithm.run, algorithm.sampler = view, algorithm.make_sampler(view)
    rows: list[Row] = []
    with closing(algorithm.sampler), closing(run.environment(tasks, 1)) as env:
        states = read_rows(run.path(STATES.format(num_tasks)))
        for number, state in enumerate(progress_bar(states, desc=f"credit of {name}", unit="turn")):
            credit, cost = _scores(algorithm, env.envs[0], state, number)
            rows.append({"credit": [credit[text] for text in state["texts"]], "cost": cost})
    if rows and fit:
        rows[0]["fit"] = fit
    write_rows(folder_of_algorithm(run, name) / SCORES.format(num_tasks), rows)


def fitted(run: Run, name: str) -> tuple[OnPolicyAlgorithm, Row]:
    """The algorithm on the initial policy, with its critic trained, and the costs of this; {} for an algorithm without one. Resumes after an iteration."""
    view = _view(run, name, run.tasks)
    configured = cast(OnPolicyAlgorithm, run.config.algorithms[name])
    algorithm = configured.with_config(replace(configured.config, learning_rate=0.0))
    algorithm.begin(view)
    has_critic = len(algorithm.checkpoint.trainables) > len(algorithm.learners)
    if not has_critic and algorithm.critic_learning_rate is None:
        return algorithm, {}
    algorithm.sampler = algorithm.make_sampler(view)
    with closing(algorithm.sampler):
        for iteration in range(len(algorithm.metrics), algorithm.config.iterations):
            algorithm.iterate(iteration)
    last = algorithm.metrics[-1] if algorithm.metrics else {}
    return algorithm, {STEPS: last.get("environment_turns", 0), TOKENS: last.get("generated_tokens", 0)}


def _view(run: Run, name: str, tasks: tuple[Any, ...]) -> Round:
    folder = folder_of_algorithm(run, name).relative_to(run.path("."))
    return Round(run, str(folder), run.seed, tasks, run.initial_model, run.config.algorithms)


def _scores(algorithm: OnPolicyAlgorithm, env: Any, state: Row, number: int) -> tuple[dict[str, float], Row]:
    """The rule's number for every text among the candidates, and the mean cost of one. Equal candidates are scored once; alone, a candidate has 0."""
    texts = list(dict.fromkeys(state["texts"]))
    if len(texts) < 2:
        return dict.fromkeys(texts, 0.0), {PASSES: 0.0, STEPS: 0.0, TOKENS: 0.0}
    marks = [_costs(algorithm)]
    episodes = candidate_episodes(algorithm, env, state, texts)
    marks.append(_costs(algorithm))
    episodes = tokenized(algorithm, episodes)  # what sampling would have told: not counted
    marks.append(_costs(algorithm))
    credit = algorithm.turn_credit(algorithm.batch(episodes, number), [state["turn"]] * len(texts))
    marks.append(_costs(algorithm))
    played, counted = ({kind: marks[i + 1][kind] - marks[i][kind] for kind in (PASSES, STEPS, TOKENS)} for i in (0, 2))
    total = {
        PASSES: counted[PASSES],
        STEPS: len(texts) + played[STEPS] + counted[STEPS],
        TOKENS: played[TOKENS] + counted[TOKENS],
    }
    cost = {kind: round(amount / len(texts), 3) for kind, amount in total.items()}
    return dict(zip(texts, map(float, credit), strict=True)), cost


def _costs(algorithm: OnPolicyAlgorithm) -> Counter[str]:
    spent = algorithm.spent
    read = sum(learner.dialogues_read for learner in algorithm.learners.values())
    return Counter({PASSES: read, STEPS: spent["environment_turns"], TOKENS: spent["generated_tokens"]})


def candidate_episodes(algorithm: OnPolicyAlgorithm, env: Any, state: Row, texts: Sequence[str]) -> list[Episode]:
    """An episode for each candidate: the dialogue before it, taken again in the environment, the candidate, and what follows by the policy.

    Args:
        algorithm: The algorithm, which plays what follows.
        env: A sub-environment with snapshots.
        state: A row of the states: "task_id", "turn", "messages".
        texts: Different candidates.

    Raises:
        ColBenchError: If the environment does not repeat the dialogue, or a service that it needs has failed.
    """
    before = repeated(env, algorithm, state_of(algorithm.run.seed, state))
    start, done, keys = env.get_state(), dict[int, Episode](), list[BranchKey]()
    candidates = Candidates.of(state)
    is_cut = dict(zip(candidates.texts, candidates.cut, strict=True))
    for index, text in enumerate(texts):
        env.set_state(start)
        episode, is_over = _taken(env, algorithm, replace(before, index=index), text, is_cut[text])
        if is_over:
            done[index] = episode
        else:
            keys.append(BranchKey(episode.task_id, index, turn=state["turn"] + 1, number=0, episode=episode))
    for episode in algorithm.play_branches(keys, "credit"):
        if episode.is_void:
            raise ColBenchError(f"What follows a candidate could not be played: {episode.error or episode.void_reason}")
        done[episode.index] = episode
    return [done[index] for index in range(len(texts))]


def repeated(env: Any, algorithm: OnPolicyAlgorithm, state: State) -> Episode:
    """A recorded dialogue, taken again in the environment: an episode with snapshots and, where the algorithm requires them, keys of its states.

    Args:
        env: A sub-environment with snapshots.
        algorithm: The algorithm.
        state: The dialogue, whole or up to a turn.

    Raises:
        NotRepeatedError: If the environment does not repeat the dialogue.
        ColBenchError: If a service that it needs has failed.
    """

    def take(episode: Episode, *turn: Any) -> Episode:
        return _taken(env, algorithm, episode, *turn)[0]

    episode = retaken(env, *state, Episode(state.task_id, 0, [], [], {"outcome": "running"}, 0.0, []), take)
    return replace(episode, messages=list(env.messages))


def _taken(env: Any, algorithm: OnPolicyAlgorithm, episode: Episode, text: str, is_cut: bool = False) -> tuple[Episode, bool]:
    """An episode with one more turn, and whether it is over. What an unfinished one lacks after its last turn is the snapshot after it."""
    hidden, states = [*episode.hidden, env.hidden_information], [*episode.states[: len(episode.turns)], env.get_state()]
    keys = [*episode.keys[: len(episode.turns)], *([env.state_key] if "anchor" in algorithm.requires else [])]
    _, reward, terminated, truncated, _ = say(env, text, is_cut)
    refuse_void(env)
    is_over = bool(terminated or truncated)
    turns = [*episode.turns, Turn(text, reward=float(reward), finish_reason=LENGTH if is_cut else STOP)]
    taken = replace(
        episode,
        messages=list(env.messages),
        turns=turns,
        metrics=dict(env.metrics) if is_over else episode.metrics,
        reward=sum(turn.reward for turn in turns),
        hidden=shared_hidden(hidden) if is_over else hidden,
        states=states if is_over else [*states, env.get_state()],
        keys=keys,
    )
    return taken, is_over


def tokenized(algorithm: OnPolicyAlgorithm, episodes: Sequence[Episode]) -> list[Episode]:
    """The episodes with tokens, and log-probabilities under the policy, of the turns that were not sampled here. Without snapshots where none is required."""
    (learner,) = algorithm.learners.values()
    keeps_states = "snapshot" in algorithm.requires
    whole = [
        replace(e, turns=_tokens_of(learner, e), states=e.states if keeps_states else []) for e in episodes
    ]  # fmt: skip
    scored = algorithm.score(whole)
    return [
        replace(e, turns=[turn if turn.log_probs else replace(turn, log_probs=of) for turn, of in zip(e.turns, of_turns, strict=True)])
        for e, of_turns in zip(whole, scored, strict=True)
    ]  # fmt: skip


def _tokens_of(learner: Learner, episode: Episode) -> list[Turn]:
    return [
        turn
        if turn.token_ids
        else replace(
            turn,
            token_ids=learner.chat.turn(
                as_read([*learner.instructions, *episode.prefix(number)], learner.history), turn.text, turn.thought
            ),
        )
        for number, turn in enumerate(episode.turns, 1)
    ]
