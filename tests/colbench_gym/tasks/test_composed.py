"""Composed families: many combinations of the same bases and steps, whose wishes meet only where their order is clear."""

from __future__ import annotations

from collections import Counter

import pytest

from colbench_gym.tasks.dial import PRESETS, STANDARD, parse_dial
from colbench_gym.tasks.embedded import SPLITS, embedded_tasks, families, family_of
from colbench_gym.tasks.families.composed import TRAIN_FAMILIES, UNSEEN_FAMILIES, Base, ComposedDomain, ComposedFamily, Step
from colbench_gym.tasks.families.domain import read_domain
from colbench_gym.tasks.families.family import Option, Topic

COMPOSED = ("figures", "entries", "texts")
NOVEL_WRITTEN = ("travel", "metering", "library")


def _special(family):
    """A family's function and the names of its topics that can be special."""
    return family.signature, frozenset(family.topics[i].name for i in family.relevant)


def _topics(some):
    return {(family.area, name) for family in some for name in _special(family)[1]}


@pytest.mark.parametrize("name", COMPOSED)
def test_a_domain_is_complete(name):
    domain = read_domain(name)
    names = [step.topic.name for step in (*domain.before, *domain.after)]
    assert len(names) == len(set(names)) >= 13 and 3 <= len(domain.bases) <= 5
    assert all(2 <= len(step.topic.options) - 1 <= 4 for step in (*domain.before, *domain.after))
    for base in domain.bases:
        assert len(set(base.calls)) == 10 and base.example not in base.calls
        assert base.signature.startswith(f"def {base.name}(")


def test_train_has_many_composed_families_and_many_topics(preset):
    train = families("train", PRESETS[preset])
    assert len({family.name for family in train}) == len(train) >= 48
    assert len({name for _, name in _topics(train)}) >= 24
    for domain in SPLITS["train"]:
        of_domain = [family for family in train if family.area == domain]
        assert len(of_domain) == TRAIN_FAMILIES
        bases = Counter(family.base.name for family in of_domain)
        assert (
            set(bases) == {base.name for base in read_domain(domain).bases} and max(bases.values()) - min(bases.values()) <= 1
        )
        assert _topics(of_domain) == {(domain, step.topic.name) for step in read_domain(domain).steps}


def test_unseen_has_new_combinations_of_what_train_knows(preset):
    train, unseen = families("train", PRESETS[preset]), families("unseen", PRESETS[preset])
    assert len(unseen) == UNSEEN_FAMILIES * len(SPLITS["unseen"])
    seen = {(family.area, _special(family)[1]) for family in train}
    assert len(seen) == len(train), "two families of train have the same relevant topics"
    assert not seen & {(family.area, _special(family)[1]) for family in unseen}
    assert _topics(unseen) <= _topics(train)
    assert {family.base.name for family in unseen} <= {family.base.name for family in train}


@pytest.mark.parametrize("relevant", range(1, 7))
def test_unseen_is_made_of_what_train_knows_at_any_dial(relevant):
    dial = parse_dial(f"topics=8&relevant={relevant}&wishes=1")
    train, unseen = families("train", dial), families("unseen", dial)
    assert unseen and _topics(unseen) <= _topics(train)


def test_novel_has_functions_and_topics_that_train_never_shows(preset):
    train, novel = (families(split, PRESETS[preset]) for split in ("train", "novel"))
    assert {family.area for family in novel} == {*NOVEL_WRITTEN, "texts"}
    assert not {family.signature for family in train} & {family.signature for family in novel}
    assert not {name for _, name in _topics(train)} & {name for area, name in _topics(novel) if area == "texts"}


def test_novels_written_families_share_only_a_few_topics_with_train():
    """Some topics recur everywhere, such as rounding; they are at most a third."""
    train = {name for _, name in _topics(families("train"))}
    written = [name for family in families("novel", STANDARD, NOVEL_WRITTEN) for name in _special(family)[1]]
    assert sum(name in train for name in written) <= len(written) / 3


def test_no_sentence_on_a_wish_of_novel_stands_in_train():
    def sentences(some):
        return {option.says for family in some for topic in family.topics for option in topic.options[1:]}

    written = [family for domain in NOVEL_WRITTEN for family in read_domain(domain).whole]
    assert not sentences(families("train")) & sentences([*families("novel"), *written])


def test_what_never_matters_to_one_family_matters_to_another():
    """A plain topic on a list is one that other families of the split have wishes on, or a decoy proper: most are the former."""
    for split in ("train", "unseen"):
        shown = _topics(families(split))
        for family in families(split):
            plain = {(family.area, topic.name) for topic in family.topics if len(topic.options) == 1}
            assert len(plain & shown) >= 4, family.name


@pytest.mark.parametrize("split", ["test", "unseen", "novel"])
def test_wishes_whose_order_could_be_mistaken_never_meet(split, values, readings, preset):
    _assert_clear(f"{split}?preset={preset}", values, readings)


@pytest.mark.slow
@pytest.mark.parametrize("query", ["preset=easy", "", "preset=hard", "topics=20&relevant=6&wishes=3-6&turns=7"])
def test_wishes_whose_order_could_be_mistaken_never_meet_in_train(query, values, readings):
    _assert_clear(f"train?{query}", values, readings)


def _assert_clear(name, values, readings):
    unclear = []
    for task in embedded_tasks(name):
        if not isinstance(family_of(task)[0], ComposedFamily):
            continue
        expected = values(task.hidden.reference, task.hidden.calls)
        sources = readings(task)
        assert task.hidden.reference in sources, task.id
        if any(values(source, task.hidden.calls) != expected for source in sources):
            unclear.append(task.id)
    assert unclear == []


def test_a_pair_whose_order_matters_is_left_out_and_one_that_says_its_order_is_not():
    """Adding and doubling: which comes first makes a difference, unless one says that it comes last."""
    assert _clear_pairs(order=0) == set()
    assert _clear_pairs(order=1) == {(1, 1)}


def _clear_pairs(order):
    steps = tuple(
        Step(Topic(name, ("?",), (Option("Nothing.", {}), Option(f"Do {name}.", {name: f"result = result {code}"}))), number)
        for name, code, number in (("add", "+ 1", 0), ("double", "* 2", order))
    )
    base = Base("f", "A function.", "def f(x)", "result = x", tuple(f"f({i})" for i in range(10)), "f(11)")
    family = ComposedDomain("numbers", (base,), (), steps).family(base, (0, 1), parse_dial("topics=2&relevant=2&wishes=2"))
    return set(family.choices((2, 2)))
