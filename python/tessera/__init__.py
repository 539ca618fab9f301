"""Run neural networks on Tessera's processors, with NumPy arrays."""
from ._native import (Device, Error, Job, Model, Network, Pipeline, Result, Runtime, Session,
                      Stream, __version__, wait_any)

__all__ = ["Device", "Error", "Job", "Model", "Network", "Pipeline", "Result", "Runtime", "Session",
           "Stream", "__version__", "wait_any"]
