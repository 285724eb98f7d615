"""The compiled network: its layers (`layers.py`), its training (`training.py`), and both from Python (`network.py`).

`train` runs a bounded number of steps and can be called again: Python looks at progress and Ctrl-C in between, and what
is learned does not depend on how often. The head of the network is either one output, trained by the formula, or a
density over label bins, trained by the likelihood of the candidates.
"""
