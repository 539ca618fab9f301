"""Runs derived PyTorch modules, all of a job in one process.

    python3 driver.py JOB.json        see tools/derived/runtimes.cc for the job

Status 0 where everything ran, 3 where PyTorch or NumPy is missing; the results lie in files.
"""
import importlib.machinery
import importlib.util
import json
import sys

try:
    import numpy
    import torch
except ImportError as error:
    print(error)
    sys.exit(3)


def load(path):
    # Whatever the file is called.
    loader = importlib.machinery.SourceFileLoader("derived", path)
    spec = importlib.util.spec_from_loader("derived", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def run_program(program):
    module = load(program["file"])
    derived = module.Derived()
    for vector, files in enumerate(program["vectors"]):
        given = [numpy.fromfile(path, dtype).reshape(dims)
                 for path, (_, dtype, dims) in zip(files, module.INPUTS)]
        with torch.no_grad():
            results = derived(*given)
        for i, (result, (_, dtype, _)) in enumerate(zip(results, module.OUTPUTS)):
            path = f"{program['stem']}_c0_v{vector}_{i}"
            result.contiguous().numpy().astype(dtype).tofile(path)


def main():
    sys.dont_write_bytecode = True
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    for program in job["programs"]:
        try:
            run_program(program)
        except Exception as error:
            print(f"{program['name']}: {type(error).__name__}: {error}")
            sys.exit(1)


main()
