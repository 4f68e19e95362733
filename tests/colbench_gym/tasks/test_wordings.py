"""What people say and ask about the topics of the embedded families: complete, plain, and without giving a wish away."""

from __future__ import annotations

import re
from collections import Counter
from itertools import permutations

import pytest

from colbench_gym.tasks.dial import PRESETS
from colbench_gym.tasks.embedded import SPLITS, all_families, description, embedded_tasks, family_of
from colbench_gym.tasks.families.composed import ComposedDomain, ComposedFamily
from colbench_gym.tasks.families.domain import read_domain, read_phrases

DOMAINS = ("figures", "entries", "texts", "travel", "metering", "library")


def _pools(name):
    """All topics that a family can have, by family; a composed domain has one pool for all its families."""
    domain = read_domain(name)
    if isinstance(domain, ComposedDomain):
        return {name: tuple(step.topic for step in domain.steps)}
    return {family.name: family.topics for family in domain.whole}


def _pool_name(family):
    return family.area if isinstance(family, ComposedFamily) else family.name


def test_phrases_stand_one_or_more_on_a_line():
    assert read_phrases("One? | Two?\nThree?\n") == ("One?", "Two?", "Three?") and read_phrases("") == ()


def _plain(text):
    return re.sub(r"\W+", " ", text).strip().lower()


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_topic_has_cues_and_paraphrases(domain):
    is_composed = isinstance(read_domain(domain), ComposedDomain)
    cues = 4 if is_composed else 3
    assert len(read_domain(domain).decoys) >= (8 if is_composed else 12)
    for topics in _pools(domain).values():
        for topic in topics:
            assert len(set(map(_plain, topic.cues))) == len(topic.cues) >= cues, topic.name
            assert len(topic.asks) >= 2 and len(topic.paraphrases) >= 12, topic.name


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_two_people_ask_in_the_same_words(domain):
    others = read_domain(domain).decoys
    for name, topics in _pools(domain).items():
        asked = Counter(_plain(text) for topic in (*topics, *others) for text in (*topic.asks, *topic.paraphrases))
        assert [text for text, count in asked.items() if count > 1] == [], name
        named = [topic.name for topic in (*topics, *others)]
        assert len(set(named)) == len(named), name


@pytest.mark.parametrize("domain", DOMAINS)
def test_decoys_have_no_wish_and_eight_paraphrases(domain):
    for topic in read_domain(domain).decoys:
        assert len(topic.options) == 1 and topic.options[0].code == {}
        assert len(topic.asks) >= 2 and len(topic.paraphrases) >= 8, topic.name
        assert re.fullmatch(r"[a-z]+", topic.name)
        assert len(topic.options[0].says.split()) <= 12, topic.name


@pytest.mark.parametrize("domain", DOMAINS)
def test_sentences_are_plain_and_none_stands_in_another(domain):
    for name, topics in _pools(domain).items():
        says = [option.says for topic in (*topics, *read_domain(domain).decoys) for option in topic.options]
        assert [text for text in says if not text.endswith(".") or len(text.split()) > 25 or not text[0].isupper()] == [], name
        assert [(a, b) for a, b in permutations(says, 2) if a in b] == [], name


@pytest.mark.parametrize("domain", DOMAINS)
def test_cues_are_short_sentences_in_passing(domain):
    for topics in _pools(domain).values():
        for topic in topics:
            for cue in topic.cues:
                assert re.fullmatch(r"[A-Z][^.?!]*\.", cue) and 4 <= len(cue.split()) <= 10, cue


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_cue_and_no_request_states_a_wish(domain):
    """No request holds a wish's sentence; no cue has its topic's name, or a number or two longer words of a wish."""
    described = read_domain(domain)
    requests = [family.request for family in (described.bases if isinstance(described, ComposedDomain) else described.whole)]
    topics = [topic for pool in _pools(domain).values() for topic in pool]
    wishes = [option.says for topic in topics for option in topic.options[1:]]
    assert [(request, wish) for request in requests for wish in wishes if wish in request] == []
    revealing = []
    for topic in topics:
        for cue in topic.cues:
            words = set(re.findall(r"\w+", cue.lower()))
            telling = [set(re.findall(r"\w{6,}|\d+", option.says.lower())) & words for option in topic.options[1:]]
            if topic.name in words or any(len(some) > 1 or any(map(str.isdigit, some)) for some in telling):
                revealing.append((topic.name, cue, telling))
    assert revealing == []


def test_a_request_has_a_cue_for_each_topic_that_can_matter_and_no_other(preset):
    dial = PRESETS[preset]
    for family in all_families(dial):
        text = description(family, dial)
        pool = _pools(family.area)[_pool_name(family)]
        relevant = {family.topics[i].name for i in family.relevant}
        announced = {topic.name for topic in pool if any(cue in text for cue in topic.cues)}
        assert announced == relevant, family.name


@pytest.mark.parametrize("domain", DOMAINS[:3])
def test_a_topic_is_announced_in_several_wordings(domain):
    requests = [description(family, PRESETS["standard"]) for family in all_families() if family.area == domain]
    for step in read_domain(domain).steps:
        used = [cue for cue in step.topic.cues if any(cue in request for request in requests)]
        assert len(used) >= 3, step.topic.name


def test_cues_do_not_come_in_the_order_of_the_list():
    in_order = []
    for family in all_families():
        cues = [cue for i in family.relevant for cue in family.topics[i].cues if cue in family.cues]
        in_order.append(tuple(cues) == family.cues)
    assert 0.05 < sum(in_order) / len(in_order) < 0.3  # of three, one order in six


@pytest.mark.parametrize("query", [*(f"preset={preset}" for preset in PRESETS), "topics=8&relevant=2"])
def test_different_families_never_share_a_first_message(query):
    messages = {}
    for split in SPLITS:
        for task in embedded_tasks(f"{split}?{query}"):
            messages.setdefault(task.description, set()).add(family_of(task)[0].name)
    assert [names for names in messages.values() if len(names) > 1] == []


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_example_is_a_call_that_runs_and_no_hidden_test(domain, values):
    families = [family for family in all_families() if family.area == domain]
    assert families
    for family in families:
        assert family.example not in family.calls and family.example.startswith(f"{family.signature[4:].partition('(')[0]}(")
        (value,) = values(family.reference((0,) * len(family.topics)), (family.example,))
        assert value is not None and not isinstance(value, type), (family.name, value)
