"""The critic that looks at pages, on a tiny random vision-language model."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("playwright")

from transformers import AutoModelForImageTextToText, AutoProcessor, TrainingArguments

from colbench_gym.files import write_rows
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.designs.design import plain_design
from colbench_gym.tasks.designs.embedded import design_of
from sandboxes.browser import Browser
from sweetrl_agent.compare import main
from sweetrl_agent.critics.vision import Views, VisionCritic, VisionHead, turns_of
from sweetrl_agent.envs.colbench_frontend import FrontendRecord
from sweetrl_agent.evaluation import comparison_job
from sweetrl_agent.models.tiny import build_tokenizer
from sweetrl_agent.trainers.vision import VisionTrainer, vision_rows

pytestmark = pytest.mark.browser
TASKS = load_tasks("embedded:train[:6]", kind="page")
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<image>{% else %}{{ c['text'] }}{% endif %}{% endfor %}\n{% endfor %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random Llava of 76 thousand weights with its processor."""
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("vision") / "model"
    tokenizer = build_tokenizer([task.hidden.reference for task in TASKS], 400)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**sizes, image_size=56, patch_size=14, projection_dim=32),
        text_config=LlamaConfig(**sizes, vocab_size=len(tokenizer), num_key_value_heads=2, pad_token_id=tokenizer.pad_token_id),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=16,
    )
    LlavaForConditionalGeneration(config).save_pretrained(path)
    LlavaProcessor(
        CLIPImageProcessorPil(size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56}), tokenizer, patch_size=14,
        vision_feature_select_strategy="default", image_token="<image>", num_additional_image_tokens=1, chat_template=TEMPLATE,
    ).save_pretrained(path)  # fmt: skip
    return path


@pytest.fixture(scope="module")
def views(folder, needs_browser):
    with Browser(workers=1) as browser:
        yield Views(AutoProcessor.from_pretrained(folder), browser, FrontendRecord())


def _head(folder):
    head = VisionHead(AutoModelForImageTextToText.from_pretrained(folder))
    with torch.no_grad():
        head.head.weight.copy_(torch.linspace(-1, 1, head.head.weight.numel())[None])
    return head


def _pair(task):
    """The page in mind, shown at once; and a plain one, shown again after a reply."""
    plain = plain_design(design_of(task).topic).html()
    ask = {"role": "user", "content": task.description}
    good = [ask, {"role": "assistant", "content": task.hidden.reference}]
    bad = [
        ask,
        {"role": "assistant", "content": plain},
        {"role": "user", "content": "No."},
        {"role": "assistant", "content": plain},
    ]
    return {
        "task_id": task.id,
        "hidden": task.hidden.reference,
        "chosen": good,
        "rejected": bad,
        "chosen_score": 1.0,
        "rejected_score": 0.2,
    }


def test_a_turn_has_a_score_that_depends_on_both_pictures_and_the_words(folder, views):
    critic = VisionCritic(_head(folder), views, batch_size=2)
    row, other = _pair(TASKS[0]), _pair(TASKS[1])
    scores = critic.dialogue_advantages(row["rejected"], row["hidden"])
    assert len(scores) == len(turns_of(row["rejected"])) == 2 and scores[0] != scores[1]
    ask = row["chosen"][:1]
    texts = [row["chosen"][1]["content"], row["rejected"][1]["content"], row["chosen"][1]["content"]]
    ranked = critic.rank(ask, row["hidden"], texts)
    assert ranked[0] == ranked[2] != ranked[1]
    assert ranked[1] == pytest.approx(scores[0], abs=1e-4)
    for hidden in (other["hidden"], ""):
        assert critic.rank(ask, hidden, texts) != ranked


def test_padding_changes_no_score(folder, views):
    row = _pair(TASKS[0])
    together, apart = (
        VisionCritic(_head(folder), views, size).dialogue_advantages(row["rejected"], row["hidden"]) for size in (8, 1)
    )
    assert together == pytest.approx(apart, abs=1e-4)


def test_it_learns_the_preference_and_comes_back_from_its_folder(folder, views, tmp_path):
    torch.manual_seed(0)
    rows = [_pair(task) for task in TASKS[:4]]
    trainer = VisionTrainer(
        beta=1.0, views=views, model=VisionHead(AutoModelForImageTextToText.from_pretrained(folder)),
        args=TrainingArguments(str(tmp_path / "c"), per_device_train_batch_size=2, learning_rate=2e-2, num_train_epochs=3, report_to=[],
                               remove_unused_columns=False, use_cpu=True, disable_tqdm=True, save_strategy="no", logging_steps=1),
        train_dataset=vision_rows(rows),
    )  # fmt: skip
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[0] == pytest.approx(0.693, abs=1e-3) and losses[-1] < 0.3
    trainer.save_model(str(tmp_path / "saved"))
    again = VisionHead(AutoModelForImageTextToText.from_pretrained(tmp_path / "saved")).load_head(tmp_path / "saved")
    trained = VisionCritic(trainer.model, views)
    for row in rows:
        sums = [sum(trained.dialogue_advantages(row[side], row["hidden"])) for side in ("chosen", "rejected")]
        assert sums[0] > sums[1]
        assert sum(VisionCritic(again, views).dialogue_advantages(row["chosen"], row["hidden"])) == pytest.approx(
            sums[0], abs=1e-4
        )


def test_it_is_refused_early_where_it_cannot_work(folder, tmp_path, capsys):
    begin = ["--algorithms", "vision_head", "--seeds", "1", "--credit_tasks", "0", "--output", str(tmp_path), "--dry_run"]
    assert main(begin) == 2
    assert "pages" in capsys.readouterr().err
    assert main([*begin, "--env", "ColBench-Frontend-v0"]) == 2
    assert "--sweet.vision_model" in capsys.readouterr().err
    assert main([*begin, "--env", "ColBench-Frontend-v0", "--sweet.vision_model", str(folder)]) == 0


def test_it_is_one_of_the_critics_of_a_run(folder, needs_browser, tmp_path):
    from sweetrl_agent.algorithms.critic_training import train_vision
    from sweetrl_agent.algorithms.critics import open_critic
    from sweetrl_agent.trainers.run import Run

    words = ["--env", "ColBench-Frontend-v0", "--sweet.vision_model", str(folder), "--tasks", "embedded:train[:6]", "--test_tasks", "embedded:test[:2]",
             "--unseen_tasks", "", "--output", str(tmp_path), "--sweet.critic_batch", "2", "--sweet.critic_micro_batch", "2", "--sandbox", "embedded"]  # fmt: skip
    run = Run(comparison_job.parse(words)[1])
    rows = [_pair(task) for task in TASKS[:2]]
    write_rows(run.path("outcome_pairs.jsonl"), rows)
    train_vision(run, "vision_head")
    with open_critic(run, "vision_head") as critic:
        assert len(critic.dialogue_advantages(rows[0]["rejected"], rows[0]["hidden"])) == 2
    assert "critic vision_head" in run.path("metrics.jsonl").read_text()
