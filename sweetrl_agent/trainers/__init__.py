"""What trains and runs: the run folder, stages, SFT, SWEET-RL's critic, the on-policy loop. `trainers.trl` has every override of TRL."""
