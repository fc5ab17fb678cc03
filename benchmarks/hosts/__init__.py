"""Several hosts on one machine, at a distance from their servers: throughput, round trips, a host cut off."""
