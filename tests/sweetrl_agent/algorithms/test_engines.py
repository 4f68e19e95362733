"""An on-policy algorithm whose agent a server samples: it is given every update as an adapter, and the tokens come back as sampled."""

from __future__ import annotations

import pytest

from colbench_gym.errors import ColBenchError
from colbench_gym.files import read_rows
from sweetrl_agent.algorithms.reinforce import Reinforce
from sweetrl_agent.core.batch import Credit
from sweetrl_agent.core.episode import Episode, Turn

GAME = {"reinforce.iterations": 3, "reinforce.tasks": 4, "reinforce.group": 4, "reinforce.learning_rate": 1e-2, "lora": True}


def test_a_server_is_given_every_update_as_an_adapter(serve, make_game, tiny_model_folder):
    server = serve(str(tiny_model_folder))
    run = make_game(2, "server", engine="server", server_urls=server.url, **GAME)
    run.config.algorithms["reinforce"].train(run)
    loads, drops = (
        [asked["lora_name"] for path, asked in server.asked if path == f"/v1/{verb}_lora_adapter"]
        for verb in ("load", "unload")
    )
    assert len({*loads}) == 3 and drops == loads[:2]
    asked = {asked["model"] for path, asked in server.asked if path == "/v1/completions"}
    assert asked == {*loads}
    rows = [row for row in read_rows(run.path("metrics.jsonl")) if row["stage"] == "reinforce"]
    assert all(row["grad_norm"] > 0 and row["loss"] != 0 and row["generated_tokens"] > 0 for row in rows)
    assert not run.path("reinforce/sampling").exists() and run.path("reinforce/agent/adapter_config.json").exists()


def test_an_engine_without_tokens_is_refused(begin, make_game):
    said = [{"role": "user", "content": "I need it."}, {"role": "assistant", "content": "yes"}]
    silent = Episode("a", 0, said, [Turn("yes")], {"outcome": "wrong"}, 1.0)
    with pytest.raises(ColBenchError, match="^'reinforce' trains on sampled tokens, and the engine returned no tokens"):
        begin(make_game(1), Reinforce()).update([silent], Credit([[1.0]]))
