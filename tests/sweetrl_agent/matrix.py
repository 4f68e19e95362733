"""What works with each family of models: `python -m tests.sweetrl_agent.matrix [FAMILY...]` tries it and records it for the documentation.

For each family a tiny random model is written, and two steps of every stage run: a job of SWEET-RL that is killed in its critic and resumed, a
comparison of the other algorithms, and an evaluation. A cell is "yes", or the one sentence that the dry run says.
"""

from __future__ import annotations

import gc
import io
import json
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from sweetrl_agent import compare, evaluate, train
from tests.words import words

from .families import FAMILIES, write_model
from .killed_runs import kill_at
from .vowels_game import write_behaviour

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "families.json"
GAME = {
    "env": "tests.sweetrl_agent.vowels_game:Vowels-v0",
    "max_new_tokens": 8,
    "system_prompt": "Ask first.",
    "generation_batch": 4,
    "threads": 1,
}
TRAIN = {
    **GAME, "tasks": "seeds:0-5", "test_tasks": "seeds:100-101", "unseen_tasks": "", "sft_dialogues": 8, "sft_batch": 4, "sft_epochs": 1, "lora_r": 2, "num_tasks": 3,
    "trajectories_per_task": 2, "sweet.num_states": 3, "sweet.num_candidates": 3, "eval_tasks": 2, "min_best": 0.0, "temperature": 1.0,
    "sweet.critic_epochs": 1, "sweet.critic_batch": 2, "sweet.critic_micro_batch": 1, "sweet.actor_batch": 2, "sweet.actor_micro_batch": 1, "sweet.actor_epochs": 1, "grpo.iterations": 2, "grpo.tasks": 2, "grpo.group": 2,
    "rft.batch": 2, "rft.epochs": 1, "mtdpo.batch": 2, "mtdpo.epochs": 1, "ilql.batch": 4, "ilql.epochs": 1,
}  # fmt: skip
OTHERS = ("grpo", "rft", "mtdpo", "ilql")
#: Prompts of these open a thought, which a random model does not close in eight tokens: its text is taken as speech, so that episodes differ.
OPENED = {"deepseek-v3", "deepseek-r1-distill"}
YES = "yes"


def call(main, *arguments):
    """Run a command in this process: "yes" if it ended well, else its one sentence; and what it printed.

    Raises:
        AssertionError: If it ended in any other way.
    """
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(list(map(str, arguments)))
    sentences = [line.removeprefix("error: ") for line in err.getvalue().splitlines() if line.startswith("error: ")]
    assert (status, len(sentences)) in ((0, 0), (2, 1)), err.getvalue()
    return sentences[0] if sentences else YES, out.getvalue()


def agreed(main, *arguments):
    """What both the dry run and the run of a command say."""
    planned, plan = call(main, *arguments, "--dry_run", "true")
    assert (found := call(main, *arguments)[0]) == planned, (planned, found)
    return planned, plan


def row(name, folder):
    """The row of a family.

    Args:
        name: Its name.
        folder: An empty folder.
    """
    family = FAMILIES[name]
    model, data = write_model(family, folder / "model"), write_behaviour(folder / "data.jsonl")
    more = {"reasoning": "none"} if name in OPENED else {}
    given = {**TRAIN, **more, "model": model, "demonstrations": data}
    sweet = words(**given, algorithm="sweet", output=folder / "sweet")
    planned, plan = call(train.main, *sweet, "--dry_run", "true")
    found = {"family": name, "architecture": type_of(family), **_described(family, plan), "dry_run": planned}
    if planned != YES:
        return {**found, **dict.fromkeys(("sft", "sweet", "resume", *OTHERS, "evaluate"), "no")}
    kill_at("critic/checkpoints/checkpoint-*/trainer_state.json", sweet, folder / "sweet")
    assert call(train.main, *sweet)[0] == YES
    compared = agreed(compare.main, *words(**given, lora="true", seeds=1, output=folder / "others"), "--algorithms", *OTHERS)[0]
    played = agreed(
        evaluate.main, model, folder / "sweet", *words(**GAME, **more, tasks="seeds:100-101", output=folder / "evaluated")
    )[0]
    return {**found, "sft": YES, "sweet": YES, "resume": YES, **dict.fromkeys(OTHERS, compared), "evaluate": played}


def type_of(family):
    """The class of its models."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[family.model_type]


def _described(family, plan):
    """What the dry run says of the template, and whether the family thinks."""
    line = next((text.removeprefix("template").strip() for text in plan.splitlines() if text.startswith("template ")), "")
    parts = line.split("; ")
    ends = next((part.removeprefix("turns end at ") for part in parts if part.startswith("turns end at ")), "")
    return {
        "instructions": parts[0].removeprefix("instructions in "), "end_of_turn": ends, "thinks": family.thinks,
        "template": "the family's" if family.template.missing else "ours, of the same behaviour",
    }  # fmt: skip


def main(names):
    """Try families and record them; returns the exit status."""
    gc.freeze()  # the libraries' objects: collections, of which a run has many, take as long as the rest
    for name in names or FAMILIES:
        with tempfile.TemporaryDirectory(prefix="families-") as folder:
            found = row(name, Path(folder))
        print(json.dumps(found), flush=True)
        recorded = {**{one["family"]: one for one in read()}, name: found}
        rows = [recorded[one] for one in FAMILIES if one in recorded]
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


def read():
    """The recorded rows."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
