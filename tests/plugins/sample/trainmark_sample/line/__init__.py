"""A workload: fit a straight line to points. `card.py` describes it, `sample.py` is for the framework `sample`."""
