"""Run neural networks on Tessera's processors, with NumPy arrays."""
import os

from . import _native
from ._native import (Block, Cluster, Device, DynamicNetwork, DynamicPipeline, DynamicSession, DynamicStream, Error,
                      GrowingPipeline, GrowingSession, GrowingStream, Job, Layers, LiveView, Memory, Model, Network,
                      Operation, Pipeline, Result, Runtime, SharedSession, Stage,
                      Stream, Task, VirtualCard, VirtualProcessor, __version__, choose_formats, default_stages, load, picture_input, read_picture,
                      resize_picture, wait_any, write_png)

__all__ = ["Block", "Cluster", "Device", "DynamicNetwork", "DynamicPipeline", "DynamicSession", "DynamicStream", "Error",
           "GrowingPipeline", "GrowingSession", "GrowingStream", "Job", "Layers", "LiveView", "Memory", "Model", "Network",
           "Operation", "Pipeline", "Result", "Runtime", "Session", "SharedSession", "Stage",
           "Stream", "Task", "VirtualCard", "VirtualProcessor", "__version__", "choose_formats", "default_stages", "load", "picture_input", "read_picture",
           "resize_picture", "wait_any", "write_png"]


class Session(_native.Session):
    """A network on one device, one run after the other. For a DynamicNetwork, or the path of a model, a DynamicSession,
    which takes its shapes from what is fed."""

    def __new__(cls, network=None, *arguments, **options):
        if cls is Session and isinstance(network, DynamicNetwork):
            return DynamicSession(network, *arguments, **options)
        if cls is Session and isinstance(network, (str, os.PathLike)):
            path = os.fspath(network)
            if path.endswith(".onnx"):
                return DynamicSession(DynamicNetwork(path), *arguments, **options)
            return Session(load(path), *arguments, **options)
        return super().__new__(cls)
