"""Settings of collection, evaluation and comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from sweetrl_agent.core.settings import LARGEST, setting

#: An item of a list of whole numbers.
Integer = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]


@dataclass
class CollectArguments:
    """Trajectories and outcome pairs."""

    num_tasks: int = setting(150, "Training tasks used; 0 for all. 5,000 in the paper.")
    trajectories_per_task: int = setting(
        3, "Episodes per task; 3 in the paper. 1 is enough for a critic that is not trained, such as 'gain'.", least=1
    )
    min_best: float = setting(
        1.0,
        "Minimum metric of a task's best trajectory for pairs, and of a trajectory for rejection fine-tuning; 1.0 in the released code.",
        least=None,
        most=1,
    )
    min_difference: float = setting(0.0, "Minimum difference of the metric within a pair; 0.1 in the released code for pages.")


@dataclass
class EvaluationArguments:
    """Evaluation of the initial and the trained policy."""

    eval_tasks: int = setting(300, "Maximum number of tasks per split; 0 for all. 1,000 in the paper.")
    eval_episodes: int = setting(1, "Episodes per task.", least=1)
    eval_initial: bool = setting(
        True, "Also evaluate the initial policy; of an algorithm with discrete actions, random actions."
    )
    eval_pretrained: str = setting(
        "",
        "After SFT of a pretrained model: also evaluate the base model, with this system prompt (see `system_prompt`); empty: do not.",
    )
    hint_turns: int = setting(
        80,
        "Turns with candidates that measure how well the initial policy reads the hidden information; 0 for none.",
    )
    eval_every: int = setting(
        0,
        "On-policy algorithms: iterations between evaluations of the policy in training, on the first test tasks; 0 for none.",
    )
    eval_every_tasks: int = setting(
        50, "Test tasks of these evaluations, one episode each, with the same seeds every time.", least=1
    )
    shown_dialogues: int = setting(24, "Test tasks with turn-wise advantages of their dialogues in the report.")


@dataclass
class CompareArguments:
    """Settings of a comparison."""

    algorithms: list[str] = setting(
        ("initial", "rft", "mtdpo", "sweet"),
        "Algorithms as in `algorithm`. Differences are later minus earlier, so list weaker ones first.",
    )
    seeds: list[Integer] = setting(
        (5,),
        "Runs of each algorithm. One number is a count, with seeds `seed`, `seed` + 1, ...; several numbers are the seeds.",
    )
    workers: int = setting(1, "Seeds that run in parallel, each with an equal share of the CPU cores.", least=1)
    critics: list[str] = setting(
        ("sweet", "untrained"),
        "Critics for credit accuracy and best-of-N: names, 'my_package:MyCritic', or JSON as in `algorithm`; where nothing is hidden, such as 'no_hidden value_head'.",
    )
    credit_tasks: int = setting(
        40,
        "Tasks per split for credit accuracy, where the exact advantage is known (embedded tasks, maze, Wordle); 0 skips it.",
    )
    credit_algorithms: list[str] = setting(
        (),
        "On-policy algorithms whose rules for the credit of turns are measured on the same candidates, with the initial policy: names or "
        "'my_package:MyAlgorithm', such as gigpo turn_ppo. Needs an environment with snapshots; empty skips it.",
    )
    best_of: list[Integer] = setting((), "Candidates per turn for best-of-N, such as 1 2 4 8 16 32; empty skips it.")
    best_of_tasks: int = setting(50, "Test tasks for best-of-N.", least=1)
    scaling: list[Integer] = setting((), "Numbers of trajectories for data scaling, such as 100 200; empty skips it.")
    simulators: list[str] = setting(
        (), "Other simulated humans to evaluate with: names, 'my_package:MyHuman' or JSON as in `simulator`; empty skips it."
    )
    simulator_tasks: int = setting(100, "Test tasks for the evaluation with other simulators.", least=1)
    baseline: str = setting(
        "", "evaluation.jsonl of a recorded run (FILE, or FILE:AGENT) for win rates against it; empty skips them."
    )
    dials: list[str] = setting(
        (),
        "Folders of comparisons on tasks of other difficulty, easiest first; `dial_place` gives this one's place. Empty skips the chart.",
    )
    dial_place: int = setting(1, "Number of `dials` shown before this comparison.", least=None)
    against: str = setting("", "'PAPER' shows the paper's tables next to ours in the report.")
    submit: str = setting("", "File to write an entry of docs/leaderboard.md to, for a pull request; empty for none.")
