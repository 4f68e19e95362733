"""The README of a run folder: which file holds what, generated from the declarations of the stages."""

from __future__ import annotations

from collections.abc import Mapping

from sweetrl_agent.core.stage import Stage

_ALWAYS = (
    ("config.yaml", "all settings; `--config` reads it"),
    ("stages.json", "for each stage: digests of what it read and wrote, wall time, most memory, metrics"),
    ("versions.json", "versions of Python and packages, commit and machine"),
    ("metrics.jsonl", "what training logged, by stage and step; a copy from `stages.json`"),
    ("timings.jsonl", "wall time of these steps; apart, since it differs between equal runs"),
)
_FILES = {
    "initial/": "the initial policy, in the format of pretrained models (`AutoModelForCausalLM.from_pretrained`)",
    "policy/": "the trained policy, in the same format; with `--lora true` an adapter on the initial policy, which `peft` loads",
    "critic/": "the critic, likewise",
    "trajectories.jsonl": "collected episodes: ColBench's fields, and tokens and log-probabilities as sampled",
    "outcome_pairs.jsonl": "pairs of episodes of a task, a better and a worse one",
    "pairs_summary.json": "how many pairs there are, and of how many tasks",
    "candidates.jsonl": "utterances sampled at some turns",
    "scores.jsonl": "the critic's advantage of each candidate",
    "turn_pairs.jsonl": "pairs of candidates of a turn, which the actor is trained on",
    "evaluation.jsonl": "every evaluated episode: outcome, metrics, dialogue",
    "turn_advantages.jsonl": "the critic's advantage of each turn of some evaluated episodes, of SWEET-RL only",
    "hint_reading.json": "whether the untrained critic prefers useful questions, of SWEET-RL only",
    "failures.jsonl": "why each evaluated episode failed, in one of a few kinds",
    "explanations.jsonl": "of the episodes that the report shows: wishes by turn, tests with expected and got",
    "results.json": "the results: means, 95% intervals, differences, and what was asked, heard and written down",
    "pictures.json": "pictures of the pages in some dialogues, of environments with pages only",
    "report.html": "the same in the browser, with dialogues",
}


def folder_guide(title: str, stages: Mapping[str, Stage], policy: str) -> str:
    """Markdown text of the README.

    Args:
        title: What the run is, such as "SWEET-RL".
        stages: The stages of the run.
        policy: Folder of the trained policy.
    """
    rows = [f"| `{file}` | {text} | - |" for file, text in _ALWAYS]
    rows += [
        f"| `{file}` | {_FILES.get(file) or (_FILES['policy/'] if file == f'{policy}/' else stage.purpose)} | {name} |"
        for name, stage in stages.items()
        for file in stage.files
    ]
    return "\n".join(
        [
            f"# Run folder: {title}",
            "",
            "| file | what it holds | stage |",
            "|---|---|---|",
            *dict.fromkeys(rows),
            "",
            "Resume the run, or repeat its report, from within this folder:",
            "",
            "    python -m sweetrl_agent.train --config config.yaml --output .",
            "",
            f"The trained policy is in `{policy}/`. Every file of rows has one JSON object a line. A finished stage is not run again, unless a file that it",
            "wrote is missing or changed; `--redo STAGE` repeats it and what follows.",
            "",
        ]
    )
