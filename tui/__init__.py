"""Peakmark: what one complete training iteration of a PyTorch model really needs."""

__version__ = "0.1.0"
