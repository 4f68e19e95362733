"""Questions about the budget with an amount in them: never an offer; and the offers that sound like them."""

from __future__ import annotations

import pytest

from colbench_gym.lmrl.car_dealer.bargain import Bargain, Car
from colbench_gym.lmrl.car_dealer.profile import Profile
from colbench_gym.lmrl.car_dealer.talk import understand

BOB = Profile("polite", "Honda", "sedan", ("sunroof",), 30_000)
OFFER = "I can offer you a Honda sedan with a sunroof for 45k."
ABOUT_THE_BUDGET = """\
Is your budget below 40k?
is your budget below 40k
Is your budget under 40k?
Is your budget up to $40,000?
Is your budget more than 40k?
Is your budget around 40k?
Is your budget 40k or less?
Is your budget at least 40k?
Is your budget set at 40k?
Is your budget for a new car 40k?
Is your budget lower than forty thousand?
Is your budget between 30k and 40k?
Is your budget 20k, 30k or 40k?
Isn't your budget more than 40k?
Your budget, is it 40k?
What about your budget, more than 40k?
For a Honda sedan, is your budget below 40k?
Does your budget go up to 40k?
Can your budget stretch to 40k?
Can I ask whether your budget is above 40k?
What is your budget? 40k?
What is your budget? Below 30k? More than 40k?
What is your budget? Could you pay 40k?
What is your budget, 30k or 40k?
How much can you pay, 40k?
How much do you want to spend? About 40k?
Can you spend 40k?
Could you spend up to 40k?
Can you afford to pay 40k?
Are you willing to spend $40,000?
Would you consider spending 40k?
Do you have $40,000 to spend?
We sell Honda sedans. Do you have $40,000 to spend?
Do you have 40k?
Do you have more than 40k?
Do you have at least 40k in cash?
Do you have 40k to spend on a Honda?
Have you got 40k to spend on a car?
You have 40k to spend, right?
Is 40k within your budget?
Is $40,000 in your price range?
Would 40k be too much for your budget?
Does 40k exceed your budget?
Is 30k to 40k within your budget?
Is 40k your limit?
Is your maximum 40k?
Is the most you can pay 40k?
40k is your budget, right?
Is it more than 40k?
Is it below 40k?
Should it cost less than 40k?
Are you looking for something under 40k?
Are you looking for a Honda sedan under 40k?
Do you want a car around 40k?
Do you want to pay less than 40k?
So your budget is about 40k?""".splitlines()
#: About the budget as long as no car was offered.
WHETHER_IT_CAN_PAY = """\
Could you pay 40,000?
Can't you pay 40k?
Would you pay $40,000 for a car?
Are you willing to pay up to $40,000?
Are you comfortable with a price of 40k?
Can you go up to 40k?
Can you go as high as 40k?
You can pay 40k, right?
Would 40k be okay for you?
Is 40k too much?""".splitlines()
OFFERS = """\
The price is 40k, is that in your budget?
It costs 40k. Is that in your budget?
A Honda sedan for 40k, is that within your budget?
I have a Honda sedan for 40k. Is your budget below 50k?
Would a Honda sedan at 40k be within your budget?
Is 40k for a Honda sedan within your budget?
Is a Honda sedan for 40k above your budget?
This Honda is 40k. Can you afford it?
Do you want the Honda sedan for 40k?
Would you like a Honda sedan for less than $40,000?
Could you pay 40k for a Honda sedan?
Would you pay 40k for it?
Would you take it for 40k?
How about 40k?
How much would you like this Honda for 40k?
Is it in your budget at 40k?
Do we have a deal at 40k?
Your budget is 30k, so how about 40k?
I can offer $45,000. Could you pay $40,000?
Do you have 50k? I can sell you a Honda sedan for 40k.""".splitlines()


def _after(*texts):
    """The bargain after these messages, and the buyer's last move."""
    bargain = Bargain(BOB)
    moves = [bargain.hear(understand(text)) for text in texts]
    return bargain, moves[-1]


@pytest.mark.parametrize("text", ABOUT_THE_BUDGET)
def test_a_question_about_the_budget_is_no_offer(text):
    heard = understand(text)
    assert (heard.price, heard.msrp, heard.budget) == (None, None, 40_000) and "budget" in heard.topics
    for before in ((), ("Do you prefer Honda?",), ("Which brand?", "What is your budget?")):
        bargain, move = _after(*before, text)
        assert (bargain.car.price, bargain.car.msrp) == (None, None)
        assert move.act == "answer" and "budget" in move.topics
    bargain, move = _after(OFFER, text)
    assert (bargain.car.price, bargain.car.msrp, move.act) == (45_000, 45_000, "answer")


@pytest.mark.parametrize("text", WHETHER_IT_CAN_PAY)
def test_whether_it_can_pay_is_an_offer_of_the_car_on_the_table(text):
    for before in ((), ("Do you prefer Honda?",), ("Which brand?",)):
        bargain, move = _after(*before, text)
        assert bargain.car.price is None and bargain.car.msrp is None
        assert move.act == "answer" and move.topics == ("budget",)
    assert _after(OFFER, text)[0].car.price == 40_000
    assert _after("This is a Honda sedan.", text)[0].car.price == 40_000


@pytest.mark.parametrize("text", OFFERS)
def test_an_offer_may_speak_of_the_budget(text):
    bargain, move = _after("Do you prefer Honda?", text)
    assert bargain.car.price == 40_000 and move.act in ("counter", "over msrp")


def test_only_an_amount_is_about_the_budget_right_after_a_question_about_it():
    assert _after("What is your budget?", "Around 40k?")[1].topics == ("budget",)
    assert _after("What is your budget?", OFFER, "40k?")[0].car.price == 40_000
    assert _after(OFFER, "What is your budget?", "40k?")[0].car.price == 40_000
    assert _after("How about a Honda sedan?", "40k?")[0].car.price == 40_000


def test_the_msrp_is_that_of_the_offer_and_not_of_the_question():
    bargain, move = _after("Do you prefer Honda?", "Is your budget below 40k?", OFFER)
    assert bargain.car == Car("Honda", ("sedan",), ("sunroof",), 45_000, 45_000)
    assert (move.act, move.amount) == ("counter", 26_400)


@pytest.mark.parametrize(("personality", "act"), [("toxic", "decline"), ("angry", "decline"), ("polite", "answer")])
def test_it_tells_its_budget_as_openly_as_when_asked_without_an_amount(personality, act):
    bargain = Bargain(Profile(personality, "Honda", "sedan", (), 30_000))
    assert bargain.hear(understand("Do you have $30,000 to spend?")).act == act
    assert bargain.car == Car()
