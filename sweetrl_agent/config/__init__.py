"""Settings: one dataclass per part of a run, in one flat namespace for the command line and for YAML files."""
