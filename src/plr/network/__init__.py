"""The compiled network: kernels (`_*.py`), and the training loop around them (`network.py`)."""
