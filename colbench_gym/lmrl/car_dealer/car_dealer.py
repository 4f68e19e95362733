"""LMRL-CarDealer-v0: sell a car to a buyer whose wishes, budget and temper are hidden."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict
from typing import Any

from colbench_gym.lmrl.car_dealer.buyers import CarBuyer, make_buyer
from colbench_gym.lmrl.car_dealer.decision import REWARDS, Decision, Reward, read_exactly, reward_of
from colbench_gym.lmrl.car_dealer.profile import draw_profile, profile_from
from colbench_gym.lmrl.car_dealer.sellers import StyledSeller, expert, oracle
from colbench_gym.lmrl.game import GameText, Outcome, TextGame
from sandboxes.arguments import typed

START = "Start\n"


class CarDealer(TextGame):
    r"""Sell a car: find out what the buyer wants, offer it, and bargain.

    ## Description
    A buyer has a personality (one of 10), a preferred brand (13), a type (6), 1 to 4 of 8 features and a budget (10, 30, 50,
    70 or 90 thousand dollars), all drawn by the seed, and all hidden. The agent is the seller and speaks first. Source:
    LMRL-Gym, arXiv:2311.18232.

    The scripted buyer understands plain English (`colbench_gym.lmrl.car_dealer.talk`) and bargains by a few documented rules
    (`colbench_gym.lmrl.car_dealer.bargain`), so that the best return against it is known exactly: a buyer that pays up to its limit
    L for the car that it wants gives 2L / (budget + L) with "fancy" and L / 1000 with "revenue". `oracle_action` reaches
    both.

    ## Observation
    Text: what the buyer said last, one line; "Start\n" at first.

    ## Action
    Text: what the seller says, such as "Which brand do you prefer?", "I can offer you a Toyota SUV with a sunroof for
    $42,000." or "It's a deal.".

    ## Reward
    0 until the buyer decides. Then with `reward="fancy"`: price / mean(budget, MSRP) if the car is bought, else (MSRP -
    budget) / MSRP. With `reward="revenue"`: the price in thousands of dollars if the car is bought, else 0. As in the
    original, losing a buyer who could not afford the car earns a positive "fancy" reward (at most 0.94 with the scripted
    buyer, less than every sale at the limit).

    ## Episode end
    *Terminated* when the buyer accepts or rejects. In the last turn it must decide. *Truncated* if it still does not (a model
    may fail to); then the reward is 0.

    ## Info
    At the end "success" (the car was bought) and "metrics": "outcome", "success", "return", "turns".

    ## Arguments
    * `buyer`: "scripted", {"name": "openai", "model": ..., "base_url": ...} or another mapping with a "name" and arguments,
      "package.module:Class", or a `CarBuyer` (`colbench_gym.lmrl.car_dealer.buyers`).
    * `reward`: "fancy" or "revenue".
    * `max_turns`: messages of the seller, 25 for the original's 50 texts.
    * `faithful`: see below.
    * `render_mode`: "ansi" for the history.

    `reset(options={"buyer": {...}})` gives the buyer: "personality", "brand", "type", "features" (a list), "budget"; missing
    ones are drawn.

    ## Expert and behaviour
    `expert_action` sees nothing hidden: it asks, offers the car that the buyer wants, and computes the limit from the
    counter-offers; it is as good in 1,500 episodes, and takes more turns. `oracle_action` sees the buyer and is optimal
    against the scripted one. `behaviour` is a mixture of four kinds of sellers (`colbench_gym.lmrl.car_dealer.sellers.STYLES`) in
    place of the paper's language models.

    ## Faithful
    Where the original is broken, what we do, and what `faithful=True` reproduces of it:

    * The decision is read from the buyer's text by one exact spelling ("Output: Decision=Accept MSRP=$30,000 Buy
      Price=$28,500"); any other is no decision, and without an MSRP there is none. Here the scripted buyer decides without
      text, and a model's decision is read in any spelling, amounts that it omits taken from the seller's words. Faithful: the
      exact spelling, and nothing else.
    * At the cap the buyer is asked to continue "Output: Decision=", but its reply is searched for the whole line, so a model
      that continues the line never decides, and the reward is 0. Here the buyer is asked once, for a reply and the decision.
      Faithful: two questions; the second reply replaces the first if it has a decision.
    * An acceptance without a price earns 0, also with the price on the table. Here that price counts. Without any price or
      MSRP the reward is 0 in both.
    * `reset` keeps the decision of the last episode; here it is cleared.
    * The batched environment ignores its seeds (it appends generators and uses the old ones). Here every environment has its
      own. Not reproduced.
    * MSRPs are unbounded: one claim of $1 makes a rejection cost -89,999. Here the scripted buyer believes claims from $5,000
      to $150,000. Not reproduced: it is the buyer's matter.
    """

    reset_options = ("buyer",)

    @typed
    def __init__(
        self,
        buyer: str | Mapping[str, Any] | CarBuyer = "scripted",
        reward: Reward = "fancy",
        max_turns: int = 25,
        faithful: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Build the game. The class documents the arguments."""
        if reward not in REWARDS:
            raise ValueError(f"`reward` must be one of {REWARDS}, got {reward!r}.")
        super().__init__(max_turns, faithful, render_mode)
        self.buyer, self.reward = make_buyer(buyer), reward
        self._owns_buyer = not isinstance(buyer, CarBuyer)
        self.profile = draw_profile(self.rng)
        self.decision: Decision | None = None

    @property
    def hidden_information(self) -> str:
        """The buyer, in plain words."""
        return self.profile.in_words

    @property
    def state_key(self) -> Hashable:
        """The conversation so far."""
        return tuple(message.text for message in self.history)

    def expert_action(self) -> str:
        """The message of a good seller that sees nothing hidden."""
        return expert(self.history)

    def oracle_action(self) -> str:
        """The message of a seller that sees the buyer; optimal against the scripted buyer."""
        return oracle(self.profile, self.history)

    def behaviour(self, rng: random.Random) -> Callable[[], str]:
        """A seller of the data set; see the class."""
        return StyledSeller(lambda: self.history, rng)

    def close(self) -> None:
        """Close the buyer if this environment made it."""
        if self._owns_buyer:
            self.buyer.close()

    def _begin(self, options: Mapping[str, Any]) -> str:
        self.profile = profile_from(options.get("buyer", {}), draw_profile(self.rng))
        self.decision = None
        return START

    def _play(self, action: str) -> Outcome:
        seed, is_last = self.rng.getrandbits(31), self.turn >= self.max_turns
        text, self.decision = self._ask_as_original(seed, is_last) if self.faithful else self._ask(seed, is_last)
        if self.decision is None:
            return Outcome(text, 0.0)
        return Outcome(text, reward_of(self.profile, self.decision, self.reward), True, self.decision.is_accepted)

    def _ask(self, seed: int, is_last: bool) -> tuple[str, Decision | None]:
        """The buyer's text and decision."""
        reply = self.buyer.answer(self.profile, self.history, seed, is_last)
        return reply.text, reply.decision

    def _ask_as_original(self, seed: int, is_last: bool) -> tuple[str, Decision | None]:
        """The buyer's text and decision as the original reads them."""
        text = self.buyer.answer(self.profile, self.history, seed).protocol
        decision, rest = read_exactly(text)
        if decision is None and is_last:
            again = self.buyer.answer(self.profile, [*self.history, GameText(text, False)], seed, True).protocol
            decision, last = read_exactly(again)
            rest = text if decision is None else last
        return rest, decision

    def _get(self) -> dict[str, Any]:
        return {"profile": self.profile.to_json(), "decision": self.decision and asdict(self.decision)}

    def _set(self, state: Mapping[str, Any]) -> None:
        self.profile = profile_from(state["profile"], self.profile)
        self.decision = Decision(**state["decision"]) if state["decision"] else None
