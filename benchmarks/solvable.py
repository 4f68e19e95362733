"""Can a coder model solve the embedded tasks if it knows every special wish? Otherwise asking questions would be useless.

    PYTHONPATH=. python benchmarks/solvable.py --model FOLDER --splits unseen novel [--count 60] [--seed 1] [--answers A.jsonl]

One message has the task's description and the sentences of all its special facts. The response prefix is the answer marker and a fence; the
answer is decoded greedily and ends with the code block. Tasks are drawn evenly over the families of a domain and over the domains of a split,
except that half of ``novel`` is from the hand-written domains. A longer draw starts with the tasks of a shorter one with the same seed.

With `--examples N`, the prompt starts with the first N tasks of a draw from ``train`` and their references, as few-shot examples.

Every measurement is added to `--output`: model, split, tasks, success with Wilson's 95% interval and tests passed with a bootstrap interval.
`--answers` stores the answers. Models: `benchmarks/fetch_test_models.py`, or a hub.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, islice, zip_longest
from os.path import commonprefix
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import sandboxes
from colbench_gym.agents.prompts import PROMPTS
from colbench_gym.files import Row, append_rows, write_json
from colbench_gym.scoring.answer import ANSWER_MARKER, parse_message
from colbench_gym.scoring.intervals import mean_interval, wilson
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import Task, load_tasks
from colbench_gym.tasks.embedded import SPLITS, family_of
from colbench_gym.tasks.families.composed import ComposedFamily
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.data.padding import right_padded
from sweetrl_agent.models.loading import bfloat16_instructions
from sweetrl_agent.policies.slots import SlotCache, predict, read

INSTRUCTIONS = {
    "plain": "You are a careful Python programmer. Write the function that the user asks for. It must do all that the request says and, "
    "in the right place, all that the wishes say. Put a comment above each step that says in words which part of the request or which wish it meets.",
    "parts": "You are a careful Python programmer. Write the function that the user asks for, in three parts with a comment above each: first what the "
    "wishes say about the input, then what the request asks for, last what the wishes say about the result. A part that no wish is about is left out, "
    "but what the request asks for is never left out.",
    "benchmark": PROMPTS["benchmark"],
}
BEGINS = f"{ANSWER_MARKER}\n```python\n"
FENCE = "```"


def with_wishes(task: Task) -> str:
    """The request with all special wishes."""
    return "\n".join(
        [task.description, "", "My wishes:", *(f"- {fact.sentence}" for fact in task.hidden.facts if fact.is_special)]
    )


def draw(split: str, query: str, count: int, seed: int) -> list[Task]:
    """Draw `count` tasks of a split, as evenly as possible over its domains and their families."""
    columns: dict[str, dict[str, list[Task]]] = {}
    for task in load_tasks(f"embedded:{split}{query}"):
        family = family_of(task)[0]
        domain = family.area if isinstance(family, ComposedFamily) else "written"
        columns.setdefault(domain, {}).setdefault(f"{family.area} {family.name}", []).append(task)
    mixed = [_in_turn(families, random.Random(f"{seed} {domain}")) for domain, families in columns.items()]
    return list(islice((task for row in zip_longest(*mixed) for task in row if task is not None), count))


def _in_turn(families: dict[str, list[Task]], rng: random.Random) -> Iterator[Task]:
    """Tasks, alternating between families; areas of different sizes alternate as well."""
    areas: dict[str, list[list[Task]]] = {}
    for name, tasks in families.items():
        areas.setdefault(name.split()[0], []).append(rng.sample(tasks, len(tasks)))
    orders = [rng.sample(area, len(area)) for area in areas.values()]
    rounds = [chain.from_iterable(zip_longest(*order)) for order in orders]
    return (task for row in zip_longest(*rounds) for task in row if task is not None)


class Greedy:
    """A model that answers prompts in batches, with greedy decoding."""

    def __init__(self, folder: str, max_new_tokens: int) -> None:
        """Load the model, in bfloat16 if this machine supports it natively, else in float32."""
        has_bfloat16 = torch.cuda.is_available() or bool(bfloat16_instructions())
        self.dtype = torch.bfloat16 if has_bfloat16 else torch.float32
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = (
            AutoModelForCausalLM.from_pretrained(folder, dtype=self.dtype, use_safetensors=True, trust_remote_code=False)
            .to(device)
            .eval()
            .requires_grad_(False)
        )
        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        self.max_new_tokens = max_new_tokens

    @torch.inference_mode()
    def answers(self, prompts: Sequence[list[int]]) -> list[str]:
        """The continuation of each prompt, up to the end of the code block."""
        cache = self._read(prompts)
        end = self.tokenizer.eos_token_id
        written: list[list[int]] = [[] for _ in prompts]
        rows = list(range(len(prompts)))
        while rows:
            last = [[(written[row] or prompts[row])[-1]] for row in rows]
            start = [len(prompts[row]) - 1 + len(written[row]) for row in rows]
            logits = predict(self.model, cache, *self._tensors(last, rows, start))
            for row, token in zip(rows, logits.argmax(dim=-1).tolist(), strict=True):
                written[row].append(token)
            rows = [
                row
                for row in rows
                if written[row][-1] != end and len(written[row]) < self.max_new_tokens and FENCE not in self._text(written[row])
            ]
        return [self._text(ids) for ids in written]

    def _read(self, prompts: Sequence[list[int]]) -> SlotCache:
        """A cache of all prompts without their last tokens. Their common prefix is computed once."""
        cache = SlotCache(self.model.config.num_hidden_layers, len(prompts))
        shared = len(commonprefix(list(prompts)))
        shared = min(shared, min(map(len, prompts)) - 1)
        if shared:
            read(self.model, cache, *self._tensors([prompts[0][:shared]], [0], [0]))
            cache.copy(0, list(range(1, len(prompts))), shared)
        order = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
        for first in range(0, len(order), 8):
            rows = sorted(order[first : first + 8])
            rest = [prompts[row][shared:-1] for row in rows]
            if any(rest):
                read(self.model, cache, *self._tensors(rest, rows, [shared] * len(rows)))
        return cache

    def _tensors(self, ids: list[list[int]], rows: list[int], start: list[int]) -> tuple[torch.Tensor, ...]:
        device = self.model.device
        return right_padded(ids, device), torch.tensor(rows, device=device), torch.tensor(start, device=device)

    def _text(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))


def worked(task: Task) -> Messages:
    """A task and its reference as a dialogue, for a few-shot example."""
    answer = f"{BEGINS}{task.hidden.reference}\n{FENCE}"
    return [{"role": "user", "content": with_wishes(task)}, {"role": "assistant", "content": answer}]


def answer_all(writer: Greedy, tasks: Sequence[Task], before: Messages, batch: int) -> list[str]:
    """The model's whole message to every task, after the messages of `before`."""
    response_prefix = writer.tokenizer(BEGINS, add_special_tokens=False)["input_ids"]
    prompts = [
        Chat(writer.tokenizer).prompt([*before, {"role": "user", "content": with_wishes(task)}]) + response_prefix
        for task in tasks
    ]
    texts: list[str] = []
    for first in range(0, len(tasks), batch):
        texts += [BEGINS + text for text in writer.answers(prompts[first : first + batch])]
        print(f"  {len(texts)} of {len(tasks)} written", flush=True)
    return texts


def measured(split: str, tasks: Sequence[Task], texts: Sequence[str], tests: UnitTests) -> tuple[dict[str, Any], list[Row]]:
    """The metrics of a split, also by domain, and a row for each answer."""
    scores = tests.score_many([(task, parse_message(text).answer) for task, text in zip(tasks, texts, strict=True)])
    rows = [
        {
            "id": task.id,
            "success": score.success,
            "tests_passed": score.tests_passed,
            "outcome": score.outcome,
            "prompt": with_wishes(task),
            "answer": text,
            "reference": task.hidden.reference,
            "calls": [f"{call}: {verdict}" for call, verdict in zip(task.hidden.calls, score.calls, strict=True)],
        }
        for task, text, score in zip(tasks, texts, scores, strict=True)
    ]
    domains = [family_of(task)[0].area for task in tasks]
    parts = {
        domain: [float(score.success) for score, task_domain in zip(scores, domains, strict=True) if task_domain == domain]
        for domain in SPLITS[split]
    }
    successes = [float(score.success) for score in scores]
    passed = [score.tests_passed for score in scores]
    rate = sum(successes) / len(successes)
    numbers = {
        "n": len(tasks),
        "success": rate,
        "success_ci95": wilson(rate, len(tasks)),
        "tests_passed": sum(passed) / len(passed),
        "tests_passed_ci95": mean_interval(passed),
        "by_domain": {domain: f"{sum(values):.0f} of {len(values)}" for domain, values in parts.items() if values},
    }
    return numbers, rows


def main() -> None:
    """Draw, write, grade, add to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder or hub name of an instruction-tuned coder")
    parser.add_argument("--splits", nargs="+", default=["unseen", "novel"], choices=sorted(SPLITS))
    parser.add_argument("--dial", default="", help="of the tasks, such as preset=hard")
    parser.add_argument("--count", type=int, default=60, help="tasks of each split")
    parser.add_argument("--seed", type=int, default=1, help="of the draw of tasks")
    parser.add_argument("--instructions", default="plain", choices=sorted(INSTRUCTIONS))
    parser.add_argument(
        "--examples", type=int, default=0, help="train tasks of the same dial, answered by their references, that go before"
    )
    parser.add_argument("--max_new_tokens", type=int, default=256)
    parser.add_argument("--batch", type=int, default=32, help="answers written at once")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/solvable.json"))
    parser.add_argument("--answers", type=Path, help="JSONL file that gets every answer, with its verdict")
    given = parser.parse_args()
    writer = Greedy(given.model, given.max_new_tokens)
    with sandboxes.make("embedded") as sandbox:
        tests = UnitTests(sandbox)
        for split in given.splits:
            query = f"?{given.dial}" if given.dial else ""
            tasks = draw(split, query, given.count, given.seed)
            examples = chain.from_iterable(worked(task) for task in draw("train", query, given.examples, given.seed))
            start = time.monotonic()
            texts = answer_all(writer, tasks, [*system_message(INSTRUCTIONS[given.instructions]), *examples], given.batch)
            numbers, rows = measured(split, tasks, texts, tests)
            record = {
                "model": Path(given.model).name,
                "split": split,
                "dial": given.dial or "preset=standard",
                "instructions": given.instructions,
                "examples": given.examples,
                "seed": given.seed,
                **numbers,
                "seconds": round(time.monotonic() - start),
                "dtype": str(writer.dtype).removeprefix("torch."),
                "when": datetime.now(UTC).date().isoformat(),
            }
            records = json.loads(given.output.read_text()) if given.output.exists() else []
            write_json(given.output, [*records, record])
            if given.answers:
                append_rows(given.answers, rows)
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
