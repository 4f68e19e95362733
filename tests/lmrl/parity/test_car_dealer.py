"""Car Dealer with `faithful=True` against the original's single environment: the same buyers, observations, rewards and ends."""

from __future__ import annotations

import hashlib
import random
from collections import Counter

import pytest

from colbench_gym.lmrl.car_dealer.buyers import CarBuyer, Reply, ScriptedBuyer
from colbench_gym.lmrl.car_dealer.car_dealer import CarDealer
from colbench_gym.lmrl.car_dealer.profile import profile_from
from colbench_gym.lmrl.car_dealer.sellers import StyledSeller
from colbench_gym.lmrl.game import GameText

#: The original's cue for the decision at the cap.
CUE = "Output: Decision="
#: Texts that end a conversation, or just do not.
LINES = (
    "Fine. Output: Decision=Accept MSRP=$42,000 Buy Price=$38,500\n",
    "Output: Decision=Reject MSRP=$61,000\n",
    "No. Output: Decision=Reject MSRP=$9,500 and good bye\n",
    "Output: Decision=Accept MSRP=$30,000\n",
    "Output: Decision=Accept MSRP=$0 Buy Price=$12\n",
    "Yes. Output: Decision=Accept MSRP=$20,000 Buy Price=$0\n",
    "output: decision=accept msrp=$42,000 buy price=$38,500\n",
    "Output: Decision=Accept MSRP=$42.5k Buy Price=$38,500 Output: Decision=Reject MSRP=$7,000",
    "Accept MSRP=$42,000 Buy Price=$38,500\n",
    "Output: Decision=Reject\n",
    "  Output: Decision=Reject MSRP=$50,000 Buy Price=$4,000  \n\n",
)
CHATTER = ("Hm.\n", "", "How much is it?\n", "No newline", " spaces \n", "What a car.\n\n")


def _reply(history, chance):
    """A text that depends on every character of the history."""
    rng = random.Random(int.from_bytes(hashlib.sha256("|".join(history).encode()).digest()[:8], "big"))
    is_cue = history[-1].endswith(CUE)
    return rng.choice(LINES) if rng.random() < (0.7 if is_cue else chance) else rng.choice(CHATTER)


@pytest.fixture(name="original", scope="module")
def _original(import_original):
    stubs = {"nltk": ()}
    return (
        import_original("llm_rl_scripts.car_dealer.env.env", stubs),
        import_original("llm_rl_scripts.car_dealer.env.data", stubs),
        import_original("LLM_RL.environment", stubs),
    )


class _TheirBuyer:
    """Speaks in the original's environment."""

    def __init__(self, text, chance):
        self.text, self.chance = text, chance

    def act(self, history):
        return (*history, self.text(_reply([one.text for one in history], self.chance), True))


class _OurBuyer(CarBuyer):
    """Says the same in ours. It sees the history as the original's buyer does: the profile's line, and every text stripped."""

    def __init__(self, describe, chance):
        self.describe, self.chance = describe, chance

    def answer(self, profile, history, seed, must_decide=False):
        texts = [history[0].text, self.describe(profile), *(f"{said.text.strip()}\n" for said in history[1:])]
        if must_decide:
            texts[-1] = history[-1].text.removesuffix("\n") + CUE
        return Reply("", raw=_reply(texts, self.chance))


def _info(profile):
    """A profile as the original's."""
    article = "an" if profile.brand == "Audi" else "a"
    return {
        "personality": profile.personality, "preferred_brands": f"{article} {profile.brand}", "preferred_type": profile.type,
        "preferred_features": list(profile.features), "budget": profile.budget,
    }  # fmt: skip


@pytest.mark.parametrize("reward", ["fancy", "revenue"])
def test_a_buyer_that_may_say_anything(original, reward):
    envs, data, texts = original
    steps, ends = 0, Counter()
    for seed in range(120):
        chance = (0.0, 0.02, 0.1)[seed % 3]
        theirs = envs.CarDealerPolicyEnvironment(_TheirBuyer(texts.Text, chance), reward_mode=reward)
        ours = CarDealer(_OurBuyer(lambda profile: data.create_buyer_info_str(_info(profile)), chance), reward, faithful=True)
        history = theirs.reset(seed=seed)
        observation, _ = ours.reset(seed=seed)
        assert observation == history[-1].text and _info(ours.profile) == theirs.buyer_info
        sellers, is_over = random.Random(seed), False
        while not is_over:
            action = sellers.choice(("Hello!\n", "  How about $30,000? ", "x", "", "A Ford.\n\n")) + str(sellers.random())
            history, their_reward, is_over = theirs.step((*history, texts.Text(action, True)))
            observation, our_reward, terminated, truncated, _ = ours.step(action)
            assert (observation, our_reward, terminated or truncated) == (history[-1].text, their_reward, is_over)
            steps += 1
        assert (theirs.output is None) == truncated == (ours.decision is None)
        if ours.decision is not None:
            assert vars(ours.decision) == {
                "is_accepted": theirs.output["car_bought"], "msrp": theirs.output["msrp"], "price": theirs.output["buy_price"],
            }  # fmt: skip
        ends[(ours.turn == 25, None if ours.decision is None else ours.decision.is_accepted)] += 1
    assert (
        steps >= 1000 and len(ends) == 5 and ends[False, None] == 0
    )  # each decision early and at the cap, and none at the cap
    print(reward, steps, "steps, 0 mismatches; (at the cap, accepted):", dict(ends))


def test_the_scripted_buyer_and_the_sellers_of_the_data_set(original):
    envs, _, texts = original

    class Adapter:
        """Our scripted buyer in the original's environment, with the same draws for its wording."""

        def act(self, history):
            is_cue, info = history[-1].text.endswith(CUE), self.env.buyer_info
            self.seed = self.seed if is_cue else self.env.random.getrandbits(31)
            given = {
                "personality": info["personality"], "brand": info["preferred_brands"].split(" ", 1)[1], "type": info["preferred_type"],
                "features": info["preferred_features"], "budget": info["budget"],
            }  # fmt: skip
            said = [GameText(text.text, not text.is_action) for text in history[2:]]
            return (
                *history,
                texts.Text(ScriptedBuyer().answer(profile_from(given, ours.profile), said, self.seed, is_cue).protocol, True),
            )

    steps = 0
    for seed in range(60):
        ours, adapter = CarDealer(faithful=True), Adapter()
        theirs = adapter.env = envs.CarDealerPolicyEnvironment(adapter)
        history = theirs.reset(seed=seed)
        ours.reset(seed=seed)
        act, is_over = StyledSeller(lambda ours=ours: ours.history, random.Random(seed)), False
        while not is_over:
            action = act()
            history, their_reward, is_over = theirs.step((*history, texts.Text(action, True)))
            observation, our_reward, terminated, truncated, _ = ours.step(action)
            assert (observation, our_reward, terminated or truncated) == (history[-1].text, their_reward, is_over)
            steps += 1
    assert steps >= 300
