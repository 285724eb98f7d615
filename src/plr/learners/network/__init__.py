"""The compiled network that `linear`-free learners share: kernels, and the training loop around them."""
