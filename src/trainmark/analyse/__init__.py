"""Pure functions on numbers: from seconds and samples of every step to a throughput that says how well it is known."""
