"""Checkpoints: the protocol of a backend, the layout of rows, the codec of values, and their isolation."""
