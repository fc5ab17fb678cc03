"""What ``idem health`` asks of a worker, of the sweeper and of the relay, for probes: bounded in time."""
