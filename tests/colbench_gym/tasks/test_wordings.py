"""What people say and ask about the topics of the embedded families: complete, plain, and without giving a wish away."""

from __future__ import annotations

import re
from collections import Counter
from itertools import permutations

import pytest

from colbench_gym.tasks.dial import PRESETS
from colbench_gym.tasks.embedded import (
    SHAPES,
    SPLITS,
    WRITTEN_DOMAINS,
    all_families,
    description,
    embedded_tasks,
    family_of,
    written_families,
)
from colbench_gym.tasks.families.wordings import decoys, read_wordings

NOVEL_WRITTEN = ("travel", "metering", "library")
DOMAINS = (*SHAPES, *WRITTEN_DOMAINS, *NOVEL_WRITTEN)
#: The domain of each hand-written family, by its name.
WRITTEN = {family.name: domain for domain in DOMAINS[len(SHAPES) :] for family in written_families(domain)}


def _pools(domain):
    """For each family of a domain, its name and all topics that it can have; a shape has one pool for all its families."""
    if domain in SHAPES:
        return {domain: tuple(step.topic for step in SHAPES[domain].steps)}
    return {family.name: family.topics for family in written_families(domain)}


def _plain(text):
    return re.sub(r"\W+", " ", text).strip().lower()


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_topic_has_cues_and_paraphrases(domain):
    words = read_wordings(domain)
    if domain in SHAPES:
        assert set(words["topics"]) == {step.topic.name for step in SHAPES[domain].steps}
    else:
        assert set(words["families"]) == {family.name for family in written_families(domain)}
        for family in written_families(domain):
            assert set(words["families"][family.name]["topics"]) == {topic.name for topic in family.topics}
    cues, names = (4, len(decoys(domain)) >= 8) if domain in SHAPES else (3, len(decoys(domain)) >= 12)
    assert names
    for topics in _pools(domain).values():
        for topic in topics:
            assert len(set(map(_plain, topic.cues))) == len(topic.cues) >= cues, topic.name
            assert len(topic.asks) >= 2 and len(topic.paraphrases) >= 12, topic.name


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_two_people_ask_in_the_same_words(domain):
    others = decoys(domain)
    for name, topics in _pools(domain).items():
        asked = Counter(_plain(text) for topic in (*topics, *others) for text in (*topic.asks, *topic.paraphrases))
        assert [text for text, count in asked.items() if count > 1] == [], name
        named = [topic.name for topic in (*topics, *others)]
        assert len(set(named)) == len(named), name


@pytest.mark.parametrize("domain", DOMAINS)
def test_decoys_have_no_wish_and_eight_paraphrases(domain):
    for topic in decoys(domain):
        assert len(topic.options) == 1 and topic.options[0].code == {}
        assert len(topic.asks) >= 2 and len(topic.paraphrases) >= 8, topic.name
        assert re.fullmatch(r"[a-z]+", topic.name)
        assert len(topic.options[0].says.split()) <= 12, topic.name


@pytest.mark.parametrize("domain", DOMAINS)
def test_sentences_are_plain_and_none_stands_in_another(domain):
    for name, topics in _pools(domain).items():
        says = [option.says for topic in (*topics, *decoys(domain)) for option in topic.options]
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
    requests = [family.request for family in (SHAPES[domain].bases if domain in SHAPES else written_families(domain))]
    topics = [topic for pool in _pools(domain).values() for topic in pool]
    wishes = [option.says for topic in topics for option in topic.options[1:]]
    assert [(request, wish) for request in requests for wish in wishes if wish in request] == []
    told = []
    for topic in topics:
        for cue in topic.cues:
            words = set(re.findall(r"\w+", cue.lower()))
            telling = [set(re.findall(r"\w{6,}|\d+", option.says.lower())) & words for option in topic.options[1:]]
            if topic.name in words or any(len(some) > 1 or any(map(str.isdigit, some)) for some in telling):
                told.append((topic.name, cue, telling))
    assert told == []


def test_a_request_has_a_cue_for_each_topic_that_can_matter_and_no_other(preset):
    dial = PRESETS[preset]
    for family in all_families(dial):
        text = description(family, dial)
        pool = _pools(WRITTEN.get(family.name, family.area))[family.name if family.name in WRITTEN else family.area]
        relevant = {family.topics[i].name for i in family.relevant}
        announced = {topic.name for topic in pool if any(cue in text for cue in topic.cues)}
        assert announced == relevant, family.name


@pytest.mark.parametrize("domain", SHAPES)
def test_a_topic_is_announced_in_several_wordings(domain):
    requests = [description(family, PRESETS["standard"]) for family in all_families() if family.area == domain]
    for step in SHAPES[domain].steps:
        used = [cue for cue in step.topic.cues if any(cue in request for request in requests)]
        assert len(used) >= 3, step.topic.name


def test_cues_do_not_come_in_the_order_of_the_list():
    ordered_map = []
    for family in all_families():
        cues = [cue for i in family.relevant for cue in family.topics[i].cues if cue in family.cues]
        ordered_map.append(tuple(cues) == family.cues)
    assert 0.05 < sum(ordered_map) / len(ordered_map) < 0.3  # of three, one order in six


@pytest.mark.parametrize("query", [*(f"preset={preset}" for preset in PRESETS), "topics=8&relevant=2"])
def test_different_families_never_share_a_first_message(query):
    messages = {}
    for place in (*SPLITS, "train/written"):
        for task in embedded_tasks(f"{place}?{query}"):
            messages.setdefault(task.description, set()).add(family_of(task)[0].name)
    assert [names for names in messages.values() if len(names) > 1] == []


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_example_is_a_call_that_runs_and_no_hidden_test(domain, values):
    own = [family for family in all_families() if WRITTEN.get(family.name, family.area) == domain]
    assert own
    for family in own:
        assert family.example not in family.calls and family.example.startswith(f"{family.signature[4:].partition('(')[0]}(")
        (value,) = values(family.reference((0,) * len(family.topics)), (family.example,))
        assert value is not None and not isinstance(value, type), (family.name, value)
