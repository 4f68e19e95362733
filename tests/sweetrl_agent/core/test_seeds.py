"""Seeds: a hash of the whole address, the same on every machine and in every version."""

from __future__ import annotations

import hashlib

from colbench_gym.seeds import derive_seed, episode_seed, turn_seed


def test_a_seed_is_the_first_63_bits_of_the_hash_of_its_address():
    bits = "".join(f"{byte:08b}" for byte in hashlib.sha256(b"7/collect/task-3/0").digest())
    assert derive_seed(7, "collect", "task-3", 0) == int(bits[:63], 2)
    assert derive_seed(0) == 3456079177858693020  # saved runs were sampled with it


def test_every_part_of_an_address_counts():
    addresses = [(0, "a", 1), (1, "a", 1), (0, "b", 1), (0, "a", 2), (0, "a"), (0, "a", 1, 0), (0, "a", 11)]
    seeds = [derive_seed(*address) for address in addresses]
    assert len({*seeds}) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_the_address_of_an_episode_is_its_run_stage_task_and_index_and_those_of_its_branch():
    assert episode_seed(7, "collect", "task-3", 4) == derive_seed(7, "collect", "task-3", 4)
    assert episode_seed(7, "collect", "task-3", 4, 2, 1) == derive_seed(7, "collect", "task-3", 4, 2, 1)


def test_every_turn_of_every_episode_has_a_seed_of_its_own():
    seeds = {turn_seed(episode, turn) for episode in (5, 6) for turn in (1, 2)}
    assert len(seeds) == 4 and turn_seed(5, 2) == derive_seed(5, "turn", 2)
