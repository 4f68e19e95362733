"""Rollouts: episodes are played in this process or by Ray workers, into files that survive a kill."""
