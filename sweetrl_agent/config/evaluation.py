"""What is collected, what is measured, and what is compared."""

from __future__ import annotations

from dataclasses import dataclass

from sweetrl_agent.core.settings import setting


@dataclass
class CollectArguments:
    """Trajectories and outcome pairs."""

    num_tasks: int = setting(150, "Training tasks used; 0 for all. 5,000 in the paper.")
    trajectories_per_task: int = setting(3, "Episodes of each; 3 in the paper.", least=2)
    min_best: float = setting(
        1.0,
        "Fraction of tests that the best trajectory of a task must pass for pairs, and any for rejection fine-tuning; 1.0 in the released code.",
        least=None,
        most=1,
    )
    min_difference: float = setting(0.0, "Least difference of the two of a pair; 0.1 in the released code for pages.")


@dataclass
class EvaluationArguments:
    """How start and result are measured."""

    eval_tasks: int = setting(300, "Tasks of each split at most; 0 for all. 1,000 in the paper.")
    eval_episodes: int = setting(1, "Episodes of each task.", least=1)
    eval_initial: bool = setting(True, "Measure the start too.")
    shown_dialogues: int = setting(24, "Tasks of the test split whose dialogues get advantages, for the report.")


@dataclass
class CompareArguments:
    """What to compare."""

    algorithms: list[str] = setting(
        ("zero_shot", "rft", "mtdpo", "sweet"), "Names of algorithms; worse ones first makes the differences positive."
    )
    seeds: int = setting(5, "Runs of each algorithm, with seeds from `seed` on.", least=1, most=10_000)
    workers: int = setting(1, "Seeds that run side by side, each with its share of the CPU's cores.", least=1)
    critics: list[str] = setting(
        ("sweet", "untrained"),
        "Critics for credit accuracy and best-of-N: sweet, or a name of an algorithm that is SWEET-RL with another critic.",
    )
    credit_tasks: int = setting(40, "Tasks of each split for credit accuracy (embedded tasks only); 0 leaves it out.")
    best_of: list[int] = setting((), "Candidates per turn for best-of-N, such as 1 2 4 8 16 32; none leaves it out.")
    best_of_tasks: int = setting(50, "Test tasks that it is played on.", least=1)
    scaling: list[int] = setting((), "Numbers of trajectories for data scaling, such as 450 900; none leaves it out.")
    simulators: list[str] = setting(
        (), "Other humans for the audit: terse, normal, chatty, names or JSON as in `simulator`; none leaves it out."
    )
    simulator_tasks: int = setting(100, "Test tasks that they are talked with on.", least=1)
    baseline: str = setting(
        "", "evaluation.jsonl of a recorded run (FILE, or FILE:AGENT) for win rates against it; empty leaves it out."
    )
    own_settings: str = setting(
        "",
        'JSON of settings that single algorithms have for themselves, such as {"no_hidden": {"critic_epochs": 4}}; of critic and actor only.',
    )
    dials: list[str] = setting(
        (),
        "Folders of comparisons on tasks of other dials, the easiest first; this one is shown in their midst by `dial_place`. None leaves it out.",
    )
    dial_place: int = setting(1, "How many of `dials` are shown before this one.", least=None)
    against: str = setting("", "'PAPER' puts the paper's tables beside ours in the report.")
