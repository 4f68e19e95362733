"""Collab: J against slow loops, what alpha does with one agent, half-informed agents with an exact Q, and every source of Q."""

from __future__ import annotations

import copy
import zlib

import gymnasium as gym
import pytest
import torch

from sweetrl_agent.algorithms.collab import Collab, CollabConfig, CollabPolicy, choose
from sweetrl_agent.algorithms.collab_values import Implicit, Rollouts, Scored, Votes
from sweetrl_agent.core.episode import EpisodeKey
from sweetrl_agent.core.policy import SearchingPolicy, Utterance
from sweetrl_agent.policies.collab import Draft, MixedAgent, Option, language_model_agents, refuse_other_tokenizers
from sweetrl_agent.policies.transformers import TransformersPolicy
from sweetrl_agent.policies.utterances import Speaker
from tests.sweetrl_agent.core.toys import dialogues, played

GRANULARITIES = ("token", "chunk:2", "utterance")
ASKED = [{"role": "user", "content": "I need the total."}]


@pytest.fixture
def make_agents(make_tiny_model, tiny_tokenizer):
    """Function: seeds of models -> an agent on each."""

    def make(*seeds, tokens=5, temperature=0.7):
        return [
            MixedAgent(TransformersPolicy(make_tiny_model(seed), Speaker(tiny_tokenizer, tokens, temperature)), number)
            for number, seed in enumerate(seeds)
        ]

    return make


def some_values(options):
    """A Q that depends on agent and tokens in no simple way, in [0, 1)."""
    return [zlib.crc32(repr((option.agent, option.token_ids)).encode()) / 2**32 for option in options]


def said(agents, reference=None, values=some_values, **settings):
    """The tokens that a mixture says, and its utterance."""
    policy = CollabPolicy(agents, CollabConfig(**{"q": "vote", **settings}), values, reference)
    (utterance,) = policy.generate([ASKED], [3])
    return utterance.token_ids, utterance


# ---- the decision ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_one_agent_says_the_same_for_every_alpha(make_agents, granularity):
    agents, (reference,) = make_agents(1), make_agents(2)
    tokens = [said(agents, reference, granularity=granularity, alpha=alpha)[0] for alpha in (0.0, 0.1, 1.0, 1e9)]
    assert tokens[0] and all(other == tokens[0] for other in tokens)
    (option, *_) = agents[0].options([Draft(ASKED, "", 3)], granularity, 2, 2, reference)
    assert option.divergence > 0.01, "alpha had something to weigh"


def test_alpha_weighs_agents_against_each_other(make_agents):
    agents, (reference,) = make_agents(1, 2), make_agents(2)
    assert agents[1].options([Draft(ASKED, "", 3)], "token", 2, 1, reference)[0].divergence == 0.0
    near, far = said(agents[1:], reference)[0], said(agents, reference, lambda zs: [1.0 - z.agent for z in zs], alpha=0.0)[0]
    assert said(agents, reference, alpha=1e9)[0] == near != far == said(agents[:1], reference, lambda zs: [1.0 for _ in zs])[0]


def test_one_agent_with_its_likeliest_token_is_greedy(make_agents, make_tiny_model):
    agents = make_agents(1, tokens=7)
    prompt = agents[0].policy.speaker.prompt(ASKED)
    greedy = make_tiny_model(1).generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=7)[0, len(prompt) :].tolist()
    tokens, utterance = said(agents, granularity="token", alpha=0.0, p=1)
    assert tokens == greedy and utterance.text == agents[0].policy.speaker.tokenizer.decode(greedy, skip_special_tokens=True)
    assert utterance.finish_reason == "length" and len(utterance.log_probs) == 7
    assert utterance.usage == (sum(len(prompt) + i for i in range(7)), 0)


def slow_log_probs(agent, token_ids, temperature):
    """Log-probabilities of the next token, by Python's own arithmetic from the logits on."""
    logits = [float(x) / temperature for x in agent.policy.model(torch.tensor([token_ids])).logits[0, -1].detach()]
    total = sum(torch.tensor(logits, dtype=torch.float64).exp().tolist())
    return [x - float(torch.tensor(total, dtype=torch.float64).log()) for x in logits]


def slow_divergence(own, other):
    return sum(float(torch.tensor(a).exp()) * (a - b) for a, b in zip(own, other, strict=False))


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_j_over_tokens_is_that_of_a_slow_loop(make_agents, alpha):
    agents, (reference,) = make_agents(1, 2, tokens=4), make_agents(3)
    prompt, tokens, temperature = agents[0].policy.speaker.prompt(ASKED), [], 0.7
    for _ in range(4):
        best, chosen = -float("inf"), None
        for number, agent in enumerate(agents):
            own = slow_log_probs(agent, prompt + tokens, temperature)
            divergence = slow_divergence(own, slow_log_probs(reference, prompt + tokens, temperature))
            for z in sorted(range(len(own)), key=lambda i: -own[i])[:3]:
                q = zlib.crc32(repr((number, [z])).encode()) / 2**32
                if q - alpha * divergence > best:
                    best, chosen = q - alpha * divergence, z
        tokens.append(chosen)
        if chosen in agents[0].policy.end_ids:
            break
    assert said(agents, reference, granularity="token", alpha=alpha, p=3)[0] == tokens


@pytest.mark.parametrize("granularity", ["chunk:2", "utterance"])
def test_the_divergence_of_samples_is_that_of_a_slow_loop(make_agents, granularity):
    (agent,), (reference,) = make_agents(1, temperature=0.2), make_agents(3)
    model = reference.policy.model = copy.deepcopy(reference.policy.model)
    model.resize_token_embeddings(model.config.vocab_size + 8, mean_resizing=False)  # padded otherwise
    options = agent.options([Draft(ASKED, "", 3)], granularity, 1, 8, reference)
    prompt, total = agent.policy.speaker.prompt(ASKED), 0.0
    assert sum(option.count for option in options) == 8 and 1 < len(options) < 8
    for option in options:
        for place in range(len(option.token_ids)):
            before = prompt + option.token_ids[:place]
            total += option.count * slow_divergence(*(slow_log_probs(x, before, 0.2) for x in (agent, reference))) / 8
    assert [option.divergence for option in options] == pytest.approx([total] * len(options), rel=1e-4)


def test_of_equal_ones_the_first_is_chosen():
    draft = Draft(ASKED, "", 0)
    options = [Option(draft, agent, [token], [], 0, divergence=float(agent)) for agent in (0, 1) for token in (5, 6)]
    assert choose(options, [1.0, 1.0, 1.0, 1.0], 0.0) is options[0]
    assert choose(options, [1.0, 2.0, 3.0, 3.0], 0.5) is options[2] and choose(options, [1.0, 2.0, 3.0, 3.0], 1.0) is options[1]


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_dialogues_do_not_depend_on_each_other(make_agents, granularity):
    agents, (reference,) = make_agents(1, 2), make_agents(3)
    policy = CollabPolicy(agents, CollabConfig(q="vote", granularity=granularity), some_values, reference)
    others = [[{"role": "user", "content": text}] for text in ("Why?", "I need the total of my prices.")]
    together = policy.generate([ASKED, *others], [3, 4, 5])
    alone = [policy.generate([dialogue], [seed])[0] for dialogue, seed in zip([ASKED, *others], (3, 4, 5), strict=True)]
    assert [(u.text, u.token_ids, u.usage) for u in together] == [(u.text, u.token_ids, u.usage) for u in alone]


# ---- half-informed agents --------------------------------------------------------------------------------------------------

FACTS = {"red": "apple", "yellow": "lemon", "green": "pear", "blue": "plum"}


class Facts(gym.Env):
    """Asks for four facts. The reward is the share of right answers or, if `is_strict`, 1 for four right ones alone."""

    is_strict = False

    def __init__(self):
        self.observation_space = self.action_space = gym.spaces.Text(max_length=100, min_length=0)
        self.right = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.right = []
        return next(iter(FACTS)), {}

    def step(self, action):
        self.right.append(action == list(FACTS.values())[len(self.right)])
        is_over = len(self.right) == len(FACTS)
        share = float(all(self.right)) if self.is_strict else sum(self.right) / len(FACTS)
        return list(FACTS)[0 if is_over else len(self.right)], share if is_over else 0.0, is_over, False, {}

    def get_state(self):
        return list(self.right)

    def set_state(self, state, reseed=None):
        self.right = list(state)


class StrictFacts(Facts):
    is_strict = True


class Knows:
    """A scripted agent that knows some of the facts, and is sure of something else about the others."""

    def __init__(self, *colours):
        self.known = colours

    def generate(self, dialogues, seeds):
        asked = [dialogue[-1]["content"] for dialogue in dialogues]
        return [Utterance(FACTS[colour] if colour in self.known else "stone", usage=(1, 1)) for colour in asked]


HALVES = (Knows("red", "green"), Knows("yellow", "blue"))


def facts_of(policies, env=Facts):
    """The return of an episode, and its turns."""
    (episode,) = played(policies, dialogues(env, 1, num_envs=1), [EpisodeKey("0")], "evaluate")
    return episode.reward, episode


def scripted(values=None):
    agents = [MixedAgent(policy, number) for number, policy in enumerate(HALVES)]
    return CollabPolicy(agents, CollabConfig(alpha=0.0, m=2), values or Rollouts(agents))


def test_two_half_informed_agents_with_exact_rollouts_beat_both():
    assert [facts_of(policy)[0] for policy in HALVES] == [0.5, 0.5]
    total, episode = facts_of(scripted())
    assert total == 1.0 and [turn.text for turn in episode.turns] == list(FACTS.values())
    # In a turn each agent's option is said, and its agent goes on to the end: 2 x (4 + 3 + 2 + 1) turns, 2 x (2 + 3 ...) utterances
    assert episode.metrics["simulated_turns"] == 20
    assert [turn.usage for turn in episode.turns] == [(n, n) for n in (4 + 6, 4 + 4, 4 + 2, 4)]
    assert isinstance(scripted(), SearchingPolicy)


def test_where_no_agent_succeeds_alone_rollouts_are_blind_and_an_exact_q_of_the_mixture_is_not():
    def exact(options):
        """What the best mixture earns after z."""
        answers = [[*(m["content"] for m in z.draft.messages if m["role"] == "assistant"), z.utterance.text] for z in options]
        return [float(given == list(FACTS.values())[: len(given)]) for given in answers]

    assert facts_of(scripted(), StrictFacts)[0] == 0.0, "Q^{pi_j} is 0 for both"
    assert facts_of(scripted(exact), StrictFacts)[0] == 1.0
    assert [facts_of(policy, StrictFacts)[0] for policy in HALVES] == [0.0, 0.0]


# ---- sources of Q ----------------------------------------------------------------------------------------------------------


def test_a_rollout_leaves_the_episode_as_it_was_and_ends_at_its_horizon():
    env = dialogues(Facts, 1, 1).envs[0]
    env.reset(options={"task_id": "0"})
    env.step("apple")
    before = env.messages
    agents = [MixedAgent(policy, number) for number, policy in enumerate(HALVES)]
    for horizon, turns, expected in ((0, 3, [0.5, 0.75]), (1, 2, [0.0, 0.0])):
        draft = Draft(env.messages, "", 0, env)
        options = [z for agent in agents for z in agent.options([draft], "utterance", 1, 1)]
        assert Rollouts(agents, 2, horizon)(options) == expected and draft.simulated_turns == 2 * 2 * turns
        assert env.messages == before and not env.metrics


@pytest.mark.parametrize("granularity", ["token", "chunk:2"])
def test_a_rollout_of_an_unfinished_utterance_goes_on_as_its_agent(make_agents, granularity):
    class Listens(gym.Env):
        """Remembers what was said to it, and ends."""

        observation_space = action_space = gym.spaces.Text(max_length=999, min_length=0)
        heard: list = []

        def reset(self, *, seed=None, options=None):
            return "I need the total.", {}

        def step(self, action):
            self.heard.append(action)
            return "", float(len(action)), True, False, {}

        def get_state(self):
            return None

        def set_state(self, state, reseed=None):
            pass

    agents, env = make_agents(1, 2, tokens=6), dialogues(Listens, 1, 1).envs[0]
    env.reset(options={"task_id": "0"})
    draft = Draft(env.messages, "", 0, env)
    draft.append(agents[0].options([draft], granularity, 1, 1)[0])
    options = [z for agent in agents for z in agent.options([draft], granularity, 2, 2)]
    generated = draft.usage[1]
    q, tokenizer = Rollouts(agents, 3)(options), agents[0].policy.speaker.tokenizer
    assert q == [sum(map(len, Listens.heard[i : i + 3])) / 3 for i in range(0, len(Listens.heard), 3)]
    assert len(Listens.heard) == 3 * len(options) and len({*Listens.heard}) > len(options)
    for i, text in enumerate(Listens.heard):
        assert text.startswith(tokenizer.decode(draft.token_ids + options[i // 3].token_ids, skip_special_tokens=True))
    assert draft.usage[1] > generated
    seeds = [7] * len(options)
    for agent in agents:
        mine = [z for z in options if z.agent == agent.number]
        for z, utterance in zip(mine, agent.completed(mine, seeds[: len(mine)]), strict=True):
            prefix = [*agent.prefix(draft), *z.token_ids]
            (rest, _), *_ = agent.policy.sample([prefix], [7], 6 - len(draft.token_ids) - len(z.token_ids))
            assert utterance.token_ids == agent.policy.utterance([*draft.token_ids, *z.token_ids, *rest], [], []).token_ids


def test_a_critic_scores_the_utterances_that_options_lead_to(make_agents):
    agents, asked = make_agents(1, 2), []

    def score(messages, hidden, utterances):
        asked.append((messages, hidden, [utterance.text for utterance in utterances]))
        return [float(len(utterance.text)) for utterance in utterances]

    draft, other = Draft(ASKED, "secret", 3), Draft([*ASKED, *ASKED], "", 4)
    whole = [z for agent in agents for z in agent.options([draft, other], "utterance", 1, 3)]
    assert Scored(agents, score, 5)(whole) == [len(z.utterance.text) for z in whole]
    assert asked[0] == (ASKED, "secret", [z.utterance.text for z in whole if z.draft is draft]) and len(asked) == 2
    parts = [z for agent in agents for z in agent.options([draft], "chunk:2", 1, 2)]
    asked.clear()
    values = Scored(agents, score, 5)(parts)
    ((_, _, texts),) = asked
    assert values == pytest.approx([sum(map(len, texts[5 * i : 5 * i + 5])) / 5 for i in range(len(parts))])
    assert len(texts) == 5 * len(parts) and len({*texts[:5]}) > 1


def test_the_implicit_reward_is_that_of_a_slow_loop(make_agents):
    (agent,), (trained,), (reference,) = make_agents(1), make_agents(2), make_agents(3)
    draft = Draft(ASKED, "", 3)
    draft.append(agent.options([draft], "token", 1, 1)[0])
    options = agent.options([draft], "chunk:2", 1, 4)
    found = Implicit(trained, reference, 0.5)(options)
    for option, value in zip(options, found, strict=True):
        total = 0.0
        for place, token in enumerate(option.token_ids):
            before = agent.policy.speaker.prompt(ASKED) + draft.token_ids + option.token_ids[:place]
            total += slow_log_probs(trained, before, 1.0)[token] - slow_log_probs(reference, before, 1.0)[token]
        assert value == pytest.approx(0.5 * total, abs=1e-4)


def test_votes_count_samples_and_likelihood_decides_ties(make_agents):
    agents = make_agents(1, 2)
    draft, other = Draft(ASKED, "", 3), Draft(ASKED, "", 3)

    def option(agent, token_ids, count, of=draft):
        return Option(of, agent, token_ids, [], 0, Utterance(str(token_ids)), count=count)

    options = [option(0, [5], 2), option(1, [6], 1), option(1, [5], 1), option(0, [7], 1), option(0, [6], 9, other)]
    votes = Votes(agents)(options)
    assert [int(value) for value in votes] == [3, 1, 3, 1, 9] and votes[0] == votes[2]
    likelihood = [[float(agent.log_probs(draft, [[0]])[0][0, token].exp()) for agent in agents] for token in (6, 7)]
    assert (votes[1] > votes[3]) == (sum(likelihood[0]) > sum(likelihood[1])) and votes[1] != votes[3]


# ---- what is refused -------------------------------------------------------------------------------------------------------


def test_other_tokenizers_and_other_policies_are_refused(make_agents, tiny_tokenizer):
    other = copy.deepcopy(tiny_tokenizer)
    other.add_tokens(["<one more>"])
    with pytest.raises(
        ValueError, match="^Agents that are mixed must have the same tokenizer, got other tokens in 'b' than in 'a'.$"
    ):
        refuse_other_tokenizers({"a": tiny_tokenizer, "b": other})
    (agent,) = make_agents(1)
    with pytest.raises(ValueError, match="can be mixed, and 'b' is not one.$"):
        language_model_agents({"a": agent.policy, "b": HALVES[0]})
    assert [agent.number for agent in language_model_agents({"a": agent.policy, "b": agent.policy})] == [0, 1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"granularity": "chunk"}, "`granularity` must be token, utterance or chunk:N, such as chunk:16, got 'chunk'."),
        ({"granularity": "chunk:0"}, "`granularity`"),
        ({"q": "gain"}, "`q` must be one of"),
        ({"q": "exact"}, "`q` must be one of"),
        ({"agents": []}, "`agents` must name different agents"),
        ({"agents": ["rft", "rft"]}, "`agents` must name different agents"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        CollabConfig(**settings)


@pytest.mark.parametrize(
    ("q", "title", "requires", "needed"),
    [
        ("rollout", "Collab (rollouts with simulator access)", {"snapshot"}, ("rft",)),
        ("archer", "Collab", set(), ("rft", "archer")),
        ("mtdpo", "Collab", set(), ("rft", "mtdpo")),
        ("vote", "Collab", set(), ("rft",)),
        ("no_hidden", "Collab", set(), ("rft", "no_hidden")),
        ("sweet", "Collab (oracle: Q sees the hidden information)", {"hidden"}, ("rft", "sweet")),
        ("untrained", "Collab (oracle: Q sees the hidden information)", {"hidden"}, ("rft",)),
    ],
)
def test_the_title_says_what_q_has_access_to(q, title, requires, needed):
    algorithm = Collab(CollabConfig(agents=["initial", "rft"], q=q))
    assert (algorithm.title, algorithm.requires, algorithm.algorithms_needed) == (title, requires, needed)
    policy = CollabPolicy([], algorithm.config, some_values)
    if title == "Collab":
        assert policy.generate([], []) == []
    else:
        with pytest.raises(TypeError, match="call `generate_in`"):
            policy.generate([], [])
