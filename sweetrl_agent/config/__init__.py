"""Settings: one dataclass for each part of a run, one flat namespace for the command line and for YAML files."""
