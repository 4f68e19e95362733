"""The environments in other frameworks: verifiers, inspect_ai and OpenEnv (docs/bridges).

Each module imports its framework, which is not installed with this package; where it is absent, the error names the command that
installs it. `conversations` is what they share. TRL's `GRPOTrainer` takes the dialogues from `sweetrl_agent.bridges`.
"""
