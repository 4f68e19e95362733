"""Broken model folders: each is one sentence, before anything runs and without a question, a traceback or code that came with the folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from colbench_gym.errors import ColBenchError
from sweetrl_agent import compare, evaluate, train
from sweetrl_agent.models.folder_check import check_model_files
from sweetrl_agent.models.weights_check import tensors_of

MESSAGES = "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + MESSAGES
ALTERNATION = (
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}" + MESSAGES
)


def _json(name, **changes):
    def change(folder):
        path = folder / name
        found = json.loads(path.read_text())
        path.write_text(
            json.dumps(
                {
                    **{key: value for key, value in found.items() if key not in changes},
                    **{k: v for k, v in changes.items() if v is not ...},
                }
            )
        )

    return change


def _text(name, text):
    return lambda folder: (folder / name).write_text(text)


def _remove(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def _template(text):
    return _text("chat_template.jinja", text)


def _cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _header(content):
    return lambda folder: (folder / "model.safetensors").write_bytes(content)


def _pickle(name):
    def change(folder):
        torch.save(load_file(folder / "model.safetensors"), folder / name)
        (folder / "model.safetensors").unlink()

    return change


def _tensors(edit):
    def change(folder):
        tensors = load_file(folder / "model.safetensors")
        edit(tensors)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})

    return change


def _shards(weight_map, is_written=True):
    def change(folder):
        path = folder / "model.safetensors"
        names = list(load_file(path))
        if is_written:
            path.rename(folder / "model-00001-of-00001.safetensors")
        else:
            path.unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps(weight_map(names)))

    return change


def _embedding_of(rows):
    def edit(tensors):
        name = next(name for name in tensors if "embed_tokens" in name)
        tensors[name] = tensors[name][:rows].clone()

    return edit


def _only(wanted):
    return _tensors(lambda tensors: [tensors.pop(name) for name in [*tensors] if not wanted(name)])


def _renamed(tensors):
    for name in [*tensors]:
        tensors[f"module.{name}"] = tensors.pop(name)


def _changed(part, change):
    return _tensors(lambda tensors: tensors.update({name: change(tensors[name]) for name in tensors if part in name}))


def _dtype(name):
    def change(folder):
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes().replace(b'"F32"', name))

    return change


def _special(name, make):
    def change(folder):
        (folder / name).unlink()
        make(folder / name)

    return change


def _encoded(name, encoding):
    return lambda folder: (folder / name).write_text((folder / name).read_text(), encoding=encoding)


def _linked(folder):
    (folder / "model.safetensors").rename(folder / "blob")
    (folder / "model.safetensors").symlink_to(folder / "nowhere")
    (folder / "blob").unlink()


SHARD = "model-00001-of-00001.safetensors"
DEEP = "[" * 100_000
#: Kind of fault -> how to make it, and what the sentence must say.
BROKEN = {
    "no configuration": (_remove("config.json"), "no config.json"),
    "configuration is not JSON": (_text("config.json", "{"), "config.json is not JSON"),
    "configuration is empty": (_text("config.json", ""), "config.json is not JSON"),
    "configuration is null": (_text("config.json", "null"), "config.json must hold an object, got NoneType"),
    "configuration is a list": (_text("config.json", "[]"), "config.json must hold an object, got list"),
    "configuration is deep": (_text("config.json", DEEP), "config.json is not JSON"),
    "configuration is deep inside": (_text("config.json", '{"a": ' + DEEP), "config.json is not JSON"),
    "unknown model type": (_json("config.json", model_type="nobody_has_it"), "config.json cannot be read .ValueError.*nobody_has_it"),
    "no model type": (_json("config.json", model_type=...), "config.json cannot be read .*model_type"),
    "model type is a number": (_json("config.json", model_type=5), "config.json cannot be read"),
    "not a language model": (_json("config.json", model_type="clip_vision_model"), "it is no language model that generates text, but a 'clip_vision_model'"),
    "code of its own": (
        _json("config.json", model_type="mine", auto_map={"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"}),
        r"code of its own \(`auto_map`\), which is not run",
    ),
    "bad auto_map": (_json("config.json", auto_map=5), "config.json cannot be read .TypeError"),
    "bad auto_map of the tokenizer": (_json("tokenizer_config.json", auto_map=[1]), "its tokenizer cannot be read"),
    "vocabulary of a wrong type": (_json("config.json", vocab_size="many"), "`vocab_size` in config.json must be a whole number"),
    "vocabulary is null": (_json("config.json", vocab_size=None), "`vocab_size` in config.json must be a whole number"),
    "endless layers": (_json("config.json", num_hidden_layers=10**12), "`num_hidden_layers` in config.json must be a whole number"),
    "endless layers inside": (_json("config.json", text_config={"num_hidden_layers": 10**12}), "`num_hidden_layers` in config.json must be a whole number"),
    "unknown dtype": (_json("config.json", dtype="float99"), "config.json cannot be read .*float99"),
    "generation settings are a list": (_text("generation_config.json", "[]"), "generation_config.json must hold an object"),
    "generation ends at a word": (_text("generation_config.json", '{"eos_token_id": "end"}'), "generation_config.json cannot be read"),
    "no tokenizer": (_remove("tokenizer.json", "tokenizer_config.json"), "its tokenizer"),
    "tokenizer is not JSON": (_text("tokenizer.json", "{"), "its tokenizer cannot be read"),
    "tokenizer is empty JSON": (_text("tokenizer.json", "{}"), "its tokenizer cannot be read"),
    "tokenizer's settings are null": (_text("tokenizer_config.json", "null"), "tokenizer_config.json must hold an object"),
    "tokenizer larger than the model": (_json("config.json", vocab_size=100), "100"),
    "no chat template": (_remove("chat_template.jinja"), "no chat template"),
    "template is not Jinja": (_template("{% for %}"), "its chat template fails for a dialogue"),
    "template raises": (_template("{{ messages[99]['content']['a'] }}"), "its chat template fails"),
    "template leaves the sandbox": (_template("{{ ''.__class__.__mro__[1].__subclasses__() }}" + MESSAGES), "fails for a dialogue .*unsafe"),
    "template opens a file": (_template("{{ cycler.__init__.__globals__.os.popen('touch /tmp/x').read() }}"), "its chat template fails"),
    "template loops": (_template("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"), "does not end within"),
    "template fills memory": (_template("{% set x = namespace(a='a' * 1000) %}{% for i in range(99) %}{% set x.a = x.a * 99 %}{% endfor %}"), "takes more than"),
    "template writes too much": (_template("{{ 'a' * 20000000 }}" + MESSAGES), "its chat template writes"),
    "template leaves messages out": (_template("hello"), "leaves out what the other side says"),
    "no weights": (_remove("model.safetensors"), "no weights"),
    "pickled weights": (_pickle("pytorch_model.bin"), r"pickle \(pytorch_model.bin\).*safe_serialization=True"),
    "pickled weights of another name": (_pickle("consolidated.pt"), r"pickle \(consolidated.pt\)"),
    "weights are torn": (_cut, "model.safetensors is torn or no safetensors file .SafetensorError"),
    "weights are empty": (_header(b""), "model.safetensors is torn"),
    "weights are text": (_header(b"version https://git-lfs.github.com/spec/v1\n"), "model.safetensors is torn or no safetensors file"),
    "header is not JSON": (_header(struct.pack("<Q", 4) + b"{{{{"), "model.safetensors is torn or no safetensors file"),
    "header is deep": (_header(struct.pack("<Q", len(DEEP)) + DEEP.encode()), "model.safetensors is torn or no safetensors file"),
    "header without tensors": (_header(struct.pack("<Q", 2) + b"{}"), "lacks [0-9]+ tensors of its architecture"),
    "header of broken tensors": (_header(struct.pack("<Q", 9) + b'{"a": [1]'[:9].ljust(9)), "torn or no safetensors file"),
    "tensor of a wrong size": (
        _header(struct.pack("<Q", 56) + b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,8]}}'.ljust(56) + b"\0" * 8), "torn or no safetensors file"
    ),
    "too few embeddings": (_tensors(_embedding_of(50)), "embed_tokens.weight' has the shape \\(50, .* by config.json"),
    "layers are missing": (_json("config.json", num_hidden_layers=7), "lacks [0-9]+ tensors of its architecture, such as 'model.layers.1"),
    "weights are a dangling link": (_linked, "it has no weights .model.safetensors"),
    "index is not JSON": (_shards(lambda names: "x"), "index.json must hold an object"),
    "index without a map": (_shards(lambda names: {}), "no `weight_map`"),
    "index of nothing": (_shards(lambda names: {"weight_map": {}}), "lacks [0-9]+ tensors of its architecture"),
    "a shard is missing": (_shards(lambda names: {"weight_map": dict.fromkeys(names, SHARD)}, is_written=False), f"no weights .{SHARD}"),
    "a tensor is missing": (_only(lambda name: name != "model.norm.weight"), "lacks 1 tensors of its architecture, such as 'model.norm.weight'"),
    "a projection is missing": (_only(lambda name: "q_proj" not in name), "lacks 1 tensors of its architecture, such as .*q_proj"),
    "tensors have other names": (_tensors(_renamed), "lacks [0-9]+ tensors of its architecture"),
    "weights of another architecture": (_json("config.json", model_type="bert"), "lacks [0-9]+ tensors of its architecture, such as 'bert"),
    "embeddings are not tied": (_json("config.json", tie_word_embeddings=False), "'lm_head.weight'"),
    "a tensor of another shape": (_changed("up_proj", lambda tensor: tensor.T.contiguous()), "up_proj.weight' has the shape .* by config.json"),
    "other sizes than the weights": (_json("config.json", intermediate_size=8), "has the shape .* by config.json"),
    "unknown activation": (_json("config.json", hidden_act="nope"), "the weights do not fit config.json .KeyError"),
    "unknown positions": (_json("config.json", rope_parameters={"rope_type": "nope"}), "the weights do not fit config.json .KeyError"),
    "quantization without its package": (_json("config.json", quantization_config={"quant_method": "gptq", "bits": 4}), r"its weights are quantized \('gptq'\)"),
    "integers for weights": (_changed("up_proj", lambda tensor: tensor.to(torch.int8)), "has the dtype 'I8', and config.json states no quantization"),
    "unknown dtype of tensors": (_dtype(b'"X32"'), "torn or no safetensors file .*X32"),
    "configuration is a pipe": (_special("config.json", os.mkfifo), "config.json must be a file, got a folder, a pipe or a device"),
    "generation settings are a pipe": (_special("generation_config.json", os.mkfifo), "generation_config.json must be a file"),
    "configuration is a folder": (_special("config.json", os.mkdir), "config.json must be a file"),
    "configuration in UTF-16": (_encoded("config.json", "utf-16"), "config.json is not JSON .UnicodeDecodeError"),
    "configuration with a byte order mark": (_encoded("config.json", "utf-8-sig"), "config.json is not JSON .JSONDecodeError: Unexpected UTF-8 BOM"),
    "tokenizer's settings in UTF-16": (_encoded("tokenizer_config.json", "utf-16"), "tokenizer_config.json is not JSON"),
    "a shard elsewhere": (_shards(lambda names: {"weight_map": dict.fromkeys(names, "../x.safetensors")}), "no `weight_map` of tensors and their files in this folder"),
}  # fmt: skip


@pytest.fixture
def folder(tiny_model_folder, tmp_path):
    return shutil.copytree(tiny_model_folder, tmp_path / "model")


@pytest.fixture(autouse=True)
def no_questions(monkeypatch):
    """Nobody is asked whether code may run."""
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))


def _fault(path, *given):
    with pytest.raises(ColBenchError) as caught:
        check_model_files(str(path), "main", *given)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
    return str(caught.value)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_folder_is_one_sentence(kind, folder):
    breaks, text = BROKEN[kind]
    breaks(folder)
    found = _fault(folder)
    assert re.search(text, found), found


def test_a_whole_folder_passes_also_in_shards_and_with_instructions(folder):
    check_model_files(str(folder), "main", "Ask first.")
    _shards(lambda names: {"weight_map": dict.fromkeys(names, SHARD)})(folder)
    check_model_files(str(folder), "main")


def test_known_models_with_code_of_their_own_are_loaded_without_it(folder):
    _json("config.json", auto_map={"AutoConfig": "code.C"})(folder)
    (folder / "code.py").write_text("raise SystemExit('ran')")
    check_model_files(str(folder), "main")


@pytest.mark.parametrize(
    "template, place",
    [
        (NO_SYSTEM, "the first user message"),
        (ALTERNATION, "the first user message"),
        ("{{ messages[-1]['content'] }}<|end|>", "the first user message"),
        (MESSAGES + "{% if add_generation_prompt %}<think>{% endif %}", "the system message"),
    ],
)
def test_what_a_template_wants_is_done_and_said(template, place, folder):
    _template(template)(folder)
    assert check_model_files(str(folder), "main", "Ask first.").startswith(f"instructions in {place}; turns end at <|end|>;")


def test_places_that_are_no_folder(tmp_path, tiny_model_folder):
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert {_fault(tmp_path / name) for name in ("file", "link", "nowhere")} == {"there is no such folder"}
    assert _fault(tmp_path / "empty") == "the folder has no config.json; name the folder that `save_pretrained` wrote"
    (tmp_path / "good").symlink_to(tiny_model_folder)
    check_model_files(str(tmp_path / "good"), "main")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder; run as another user")
def test_a_folder_that_may_not_be_read(folder):
    folder.chmod(0)
    try:
        assert _fault(folder) == "the folder has no config.json; name the folder that `save_pretrained` wrote"
    finally:
        folder.chmod(0o700)


def test_a_hub_name_without_the_hub(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert _fault("nobody/has-this-model").endswith("the hub cannot be asked (no connection, or HF_HUB_OFFLINE is set)")


def test_adapters(folder, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    path = adapter / "adapter_config.json"
    save_file({"a": torch.zeros(2)}, adapter / "adapter_model.safetensors")
    for text, fault in (
        ("null", "adapter_config.json must hold an object"), ("{}", "names no base model"), (json.dumps({"base_model_name_or_path": str(adapter)}), "is an adapter too"),
        (json.dumps({"base_model_name_or_path": str(tmp_path / "gone")}), "there is no such folder"),
    ):  # fmt: skip
        path.write_text(text)
        assert fault in _fault(adapter)
    model = AutoModelForCausalLM.from_pretrained(folder)
    get_peft_model(model, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")).save_pretrained(adapter)
    check_model_files(str(adapter), "main")
    check_model_files(str(adapter), "main", base=str(folder))
    (adapter / "adapter_model.safetensors").write_bytes(b"x" * 20)
    assert "adapter_model.safetensors is torn" in _fault(adapter)
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    assert "pickle (adapter_model.bin)" in _fault(adapter)


def test_headers_have_the_dtypes_and_shapes(folder):
    assert tensors_of(folder) == {name: ("F32", tuple(t.shape)) for name, t in load_file(folder / "model.safetensors").items()}


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("train", "configuration is null"),
        ("train", "code of its own"),
        ("compare", "pickled weights"),
        ("evaluate", "weights are torn"),
    ],
)
def test_the_commands_say_so_in_a_dry_run(command, kind, folder, tmp_path, capsys):
    breaks, text = BROKEN[kind]
    breaks(folder)
    given = ["--dry_run", "--output", str(tmp_path / "run"), "--tasks", "embedded:train[:3]"]
    if command == "evaluate":
        status = evaluate.main([str(folder), *given])
    else:
        main = train.main if command == "train" else compare.main
        status = main(["--model", str(folder), "--test_tasks", "embedded:test[:3]", "--unseen_tasks", "", *given])
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert status == 2 and len(errors) == 1 and re.search(text, errors[0]), errors


def test_a_run_says_so_before_it_begins(folder, tmp_path, capsys):
    _cut(folder)
    tasks = ["--tasks", "embedded:train[:3]", "--test_tasks", "embedded:test[:3]", "--unseen_tasks", ""]
    given = ["--model", str(folder), "--output", str(tmp_path / "run"), *tasks]
    assert train.main(given) == 2
    assert "model.safetensors is torn" in capsys.readouterr().err and not (tmp_path / "run" / "initial").exists()
    assert evaluate.main([str(folder), "--output", str(tmp_path / "eval"), "--tasks", "embedded:test[:2]"]) == 2
    assert "model.safetensors is torn" in capsys.readouterr().err


def test_a_command_asks_nothing_and_prints_one_line(folder, tmp_path):
    BROKEN["code of its own"][0](folder)
    words = ["--dry_run", "--model", str(folder), "--num_tasks", "5", "--output", str(tmp_path / "run")]
    command = [sys.executable, "-m", "sweetrl_agent.train", *words]
    done = subprocess.run(command, input="y\n", capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "Traceback" not in done.stderr and "[y/N]" not in done.stdout + done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("error:")] == done.stderr.splitlines()


def test_a_tokenizer_whose_tokens_the_model_does_not_have_is_refused_and_spare_ones_are_not(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<|never said|>"])
    tokenizer.save_pretrained(folder)
    check_model_files(str(folder), "main")
    tokenizer.add_tokens(["function"])
    tokenizer.save_pretrained(folder)
    assert re.search("its chat template makes token [0-9]+, and its model has", _fault(folder))
