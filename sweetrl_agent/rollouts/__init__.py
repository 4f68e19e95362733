"""Playing episodes: in this process or by Ray's workers, into files that survive a kill."""
