"""The README of a run folder, a table of its files, generated from the declarations of the stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweetrl_agent.core.stage import Stage

_ALWAYS = (
    ("config.yaml", "all settings; `--config` reads it"),
    ("stages.json", "for each stage: digests of its inputs and outputs, wall time, peak memory, metrics"),
    ("versions.json", "versions of Python and packages, commit and machine"),
    ("metrics.jsonl", "metrics of training, by stage and step; a copy from `stages.json`"),
    ("progress.json", "the stage in progress, for `report --watch`; only while the run works, or with the error that ended it"),
    ("server_usage.jsonl", "tokens of each request to a model server; only with model servers"),
    ("timings.jsonl", "wall time of these steps, which differs between equal runs"),
)
_FILES = {
    "initial/": "the initial policy, in the format of pretrained models (`AutoModelForCausalLM.from_pretrained`)",
    "policy/": "the trained policy, in the same format; with `--lora true` an adapter on the initial policy, which `peft` loads",
    "critic/": "the critic, in the same format",
    "trajectories.jsonl": "collected episodes: ColBench's fields, and tokens and log-probabilities as sampled",
    "outcome_pairs.jsonl": "pairs of a better and a worse episode of a task",
    "pairs_summary.json": "number of pairs, and of their tasks",
    "candidates.jsonl": "utterances sampled at some turns",
    "noise_level.json": "the noise level of the information gain in nats, where `gain_noise` asks for one",
    "scores.jsonl": "the critic's advantage of each candidate",
    "turn_pairs.jsonl": "pairs of candidates of a turn, on which the actor is trained",
    "evaluation.jsonl": "every evaluated episode: outcome, metrics, dialogue",
    "turn_advantages.jsonl": "the critic's advantage of each turn of some evaluated episodes, of SWEET-RL only",
    "hint_reading.json": "whether the untrained critic prefers useful questions, of SWEET-RL only",
    "failures.jsonl": "the kind of failure of each evaluated episode",
    "explanations.jsonl": "wishes by turn and tests with expected and actual values, for the episodes in the report",
    "results.json": "the results: means, 95% intervals, differences, and the wishes asked about, heard and written down",
    "pictures.json": "pictures of the pages in some dialogues, of environments with pages only",
    "report.html": "the same in the browser, with dialogues",
}


def folder_guide(title: str, stages: Mapping[str, Stage], folders: Sequence[str]) -> str:
    """Markdown text of the README.

    Args:
        title: What the run is, such as "SWEET-RL".
        stages: The stages of the run.
        folders: Folders of what was trained; none for the initial policy.
    """
    rows = [f"| `{file}` | {text} | - |" for file, text in _ALWAYS]
    rows += [
        f"| `{file}` | {_FILES.get(file) or _FILES.get(file.partition('/')[2]) or (_FILES['policy/'] if file.removesuffix('/') in folders else stage.purpose)} | {name} |"
        for name, stage in stages.items()
        for file in stage.files
    ]
    places = ", ".join(f"`{folder}/`" for folder in folders)
    trained = (
        f"The trained {'policies are' if len(folders) > 1 else 'policy is'} in {places}."
        if folders
        else "Nothing is trained after the initial policy."
    )
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
            f"{trained} Every file of rows has one JSON object a line.",
            "A finished stage is not run again, unless one of its files is missing or changed; `--redo STAGE` repeats it and the stages after it.",
            "",
        ]
    )
