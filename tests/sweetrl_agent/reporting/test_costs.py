"""The table of costs by agent, of a run and of a comparison."""

from __future__ import annotations

from sweetrl_agent.reporting.comparison_parts import parts
from sweetrl_agent.reporting.costs import AGENT_HEAD, costs_part

from .made_up import ATTACK, COLUMNS, CRITICS, TITLES, comparison_results, html_of

OF_AGENT = {"dialogues": 27, "environment_turns": 1200, "generated_tokens": 56789}


def test_a_run_of_several_agents_has_a_table_of_their_costs():
    costs = {
        "dialogues": 30,
        "environment_turns": 1300,
        "generated_tokens": 60000,
        "trained_tokens": 9,
        "agents": {"coder": OF_AGENT, ATTACK: {}},
    }
    part = costs_part({"costs": costs})
    (table,) = part.tables
    assert table.head == AGENT_HEAD and table.rows == [
        ("coder", "27", "1,200", "56,789", "\N{EM DASH}"),
        (ATTACK, *["\N{EM DASH}"] * 4),
        ("all", "30", "1,300", "60,000", "9"),
    ]
    assert ATTACK not in html_of(part)


def test_a_single_agent_and_an_older_run_have_none():
    assert costs_part({"costs": {"dialogues": 30, "environment_turns": 1300}}) is None and costs_part({}) is None


def test_a_comparison_has_means_over_seeds_for_algorithms_with_agents():
    results = comparison_results(["grpo", "reinforce"])
    for number, of_seed in enumerate(results["ledger"].values()):
        of_seed["grpo"]["agents"] = {"coder": {**OF_AGENT, "trained_tokens": 10 * number}}
    (part,) = (part for part in parts(results, TITLES, CRITICS, COLUMNS, False) if part.identifier == "ledger")
    assert part.tables[1].rows == [(TITLES.get("grpo", "grpo"), "coder", "27", "1,200", "56,789", "10")]
    plain = comparison_results(["grpo"])
    (part,) = (part for part in parts(plain, TITLES, CRITICS, COLUMNS, False) if part.identifier == "ledger")
    assert len(part.tables) == 1
