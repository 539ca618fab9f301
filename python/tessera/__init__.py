"""Run neural networks on Tessera's processors, with NumPy arrays."""
from ._native import (Block, Device, DynamicNetwork, DynamicSession, Error, Job, Layers, LiveView, Memory, Model, Network,
                      Operation, Pipeline, Result, Runtime, Session, SharedSession, Stage,
                      Stream, Task, VirtualCard, VirtualProcessor, __version__, choose_formats, default_stages, load, picture_input, read_picture,
                      resize_picture, wait_any, write_png)

__all__ = ["Block", "Device", "DynamicNetwork", "DynamicSession", "Error", "Job", "Layers", "LiveView", "Memory", "Model", "Network",
           "Operation", "Pipeline", "Result", "Runtime", "Session", "SharedSession", "Stage",
           "Stream", "Task", "VirtualCard", "VirtualProcessor", "__version__", "choose_formats", "default_stages", "load", "picture_input", "read_picture",
           "resize_picture", "wait_any", "write_png"]
