"""trainmark measures how fast machines train neural networks, proves the number and says why it is what it is."""

__version__ = "0.1.0"
