"""The evaluator of both commands, `python -m colbench_gym.evaluate` and `python -m sweetrl_agent.evaluate`, without torch.

A command turns names into objects and hands them down: an `Evaluation` has `EvaluatedPolicy`s, splits and seeds. `evaluate` walks through its
cells (a policy, a split, a seed) and asks the policy for a `Player`, which turns keys of episodes into rows. All else knows neither models nor
environments: `RowFile` appends the rows in batches, resumes, holds void ones back and plays them again; `cells` records what each cell has read
and written; `summary`, `prices` and `table` compute means, intervals, paired differences and cost from the rows alone. Two players exist: `AgentPlayer`
plays agents (scripted, chat servers, a person, functions) on ColBench's environments in threads, and `sweetrl_agent.rollouts.player` plays
policies with batches of tokens on any environment with the scheduler that training uses. Models are a plug-in: `find_policies` takes parsers of
names, of which `sweetrl_agent` adds those of run folders, model folders and hub names. The evaluations inside `train` and `compare` write their
rows by the same `RowFile` and `episode_row`, and compute results by the same `summary`.
"""
