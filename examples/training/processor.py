"""The command line `tessera`, with the files of one example in one folder."""
import importlib.util
import os
import shutil
import subprocess
import sys

import numpy
import torch


def add_arguments(parser):
    """Those that a Processor reads."""
    parser.add_argument("--arch", default="tessera128")
    parser.add_argument("--device", default="sim", help="what runs the program in the end")
    parser.add_argument("--tessera", default="tessera", help="the program tessera")


def check_arguments(parser, arguments):
    if shutil.which(arguments.tessera) is None:
        parser.error(f"there is no program '{arguments.tessera}'; give it with --tessera")


class Processor:
    """The command line, with the files of one run in one folder."""

    def __init__(self, arguments, folder, number_format):
        self.arguments = arguments
        self.folder = folder
        self.formats = arguments.arch + "+" + number_format

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, *words):
        done = subprocess.run([self.arguments.tessera, *words], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr or f"'tessera {words[0]}' ended with status {done.returncode}")

    def export(self, network, example):
        """A PyTorch network as an ONNX file; its path."""
        path = self.path("model.onnx")
        torch.onnx.export(network, torch.from_numpy(example), path, opset_version=17,
                          input_names=["pictures"], output_names=["logits"])
        return path

    def compile(self, model, weights=None):
        """The model as a package; `weights` in place of its own."""
        words = ["compile", model, "--arch", self.formats, "--require-full-offload",
                 "-o", self.path("model.tpkg")]
        self.call(*words, *(["--weights", weights] if weights else []))

    def derive(self, name="derived"):
        """The package as a PyTorch module with parameters."""
        self.call("derive", self.path("model.tpkg"), "--to", "pytorch", "--arch", self.formats,
                  "--trainable", "-o", self.path(name + ".py"))
        spec = importlib.util.spec_from_file_location(name, self.path(name + ".py"))
        derived = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(derived)
        return derived

    def run(self, port_in, port_out, pictures):
        """The results of one batch: those of the program, on the device."""
        name, dtype, dims = port_in
        numpy.save(self.path("pictures.npy"), pictures.astype(dtype).reshape(dims))
        self.call("run", self.path("model.tpkg"), "--arch", self.formats, "--device",
                  self.arguments.device, "--input", f"{name}={self.path('pictures.npy')}",
                  "--output", self.path("results"))
        return numpy.load(self.path(f"results/{port_out[0]}.npy"))
