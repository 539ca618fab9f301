from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict, overload

import numpy
from numpy.typing import ArrayLike, NDArray

__version__: str

DeviceKind = Literal["host", "sim", "ref"]
# An output keeps the memory that the library wrote; bf16 comes as uint16, its bits.
Array = NDArray[Any]

class Error(Exception):
    # What to do: "invalid argument", "invalid model", "does not fit", "unsupported", "unavailable",
    # "internal".
    code: str
    # Of a task: "error", "cancelled", "deadline", "device", "mismatch"; otherwise "none".
    failure: str
    stage: str
    device: str
    layer: str

class Network:
    def __init__(self, path: str, *, arch: str = "tessera128",
                 shapes: Mapping[str, Sequence[int]] = {},
                 constants: Mapping[str, numpy.ndarray[Any, Any]] = {}) -> None: ...
    # name, dtype, shape
    @property
    def inputs(self) -> list[tuple[str, str, tuple[int, ...]]]: ...
    @property
    def outputs(self) -> list[tuple[str, str, tuple[int, ...]]]: ...
    @property
    def nodes_on_processor(self) -> int: ...
    @property
    def nodes_on_host(self) -> int: ...
    def save_package(self, path: str) -> None: ...

class Result:
    @property
    def outputs(self) -> list[Array]: ...
    @property
    def names(self) -> list[str]: ...
    # Simulated; 0 on host and ref.
    @property
    def cycles(self) -> int: ...
    @property
    def device(self) -> str: ...
    # Within the stream, from 0.
    @property
    def sequence(self) -> int: ...
    # From submit to result, and on the kernel.
    @property
    def seconds(self) -> float: ...
    @property
    def kernel_seconds(self) -> float: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Array]: ...
    @overload
    def __getitem__(self, key: int) -> Array: ...
    @overload
    def __getitem__(self, key: str) -> Array: ...

class Session:
    def __init__(self, network: Network, device: DeviceKind = "host", threads: int = 0) -> None: ...
    # Arrays in the order of Network.inputs, or one dict by name.
    def run(self, *inputs: ArrayLike | Mapping[str, ArrayLike]) -> Result: ...

class Job:
    # TimeoutError after `timeout` seconds; the task goes on.
    def wait(self, timeout: float | None = None) -> Result: ...
    def done(self) -> bool: ...
    def cancel(self) -> None: ...
    @property
    def id(self) -> int: ...

class Stream:
    # As Session.run. `wait`: for room, else Error. `deadline`: seconds from now on. `callback` is called
    # by a thread of the library with the result or the error, and None for the other.
    def submit(self, *inputs: ArrayLike | Mapping[str, ArrayLike],
               callback: Callable[[Result | None, Error | None], object] | None = None,
               deadline: float | None = None, wait: bool = True) -> Job: ...
    def wait_until_done(self) -> None: ...

class StageStatus(TypedDict):
    name: str
    threads: int
    kernels: int
    queued: int
    tasks: int
    busy_seconds: float

class PipelineStatus(TypedDict):
    stages: list[StageStatus]
    in_flight: int
    jobs_max: int
    submitted: int
    succeeded: int
    failed: int
    cancelled: int
    late: int
    compared: int
    mismatches: int

class Pipeline:
    def stream(self) -> Stream: ...
    def status(self) -> PipelineStatus: ...
    # While tasks flow; stages are "pre", "execute", "post".
    def set_threads(self, stage: str, threads: int) -> None: ...
    def set_kernels(self, stage: str, kernels: int) -> None: ...
    def wait_until_done(self) -> None: ...

class Device:
    def __init__(self, kind: DeviceKind = "host", *, name: str = "", arch: str = "tessera128",
                 kernels: int = 1, threads: int = 0, pace: float = 0.0) -> None: ...

class Model:
    @property
    def network(self) -> Network: ...

class DeviceStatus(TypedDict):
    name: str
    kind: DeviceKind
    kernels: int
    healthy: bool
    fault: str
    runs: int
    bytes_in: int
    bytes_out: int
    weight_bytes: int
    busy_seconds: float

class Runtime:
    def __init__(self, devices: list[DeviceKind | Device] | None = None) -> None: ...
    def load(self, network: Network, *, devices: Sequence[str] = []) -> Model: ...
    # `compare_every`: of so many tasks one runs on the host too, and a difference is an Error.
    def pipeline(self, model: Model | Network, *, jobs_max: int = 256,
                 handover: Literal["free-flow", "lock-step"] = "free-flow",
                 hint: Literal["throughput", "latency"] = "throughput", tune: bool = False,
                 compare_every: int = 0) -> Pipeline: ...
    def devices(self) -> list[DeviceStatus]: ...
    def write_trace(self, path: str) -> None: ...
    def prometheus(self) -> str: ...

# The place of a job that is done; None after `timeout` seconds, or where there are no jobs.
def wait_any(jobs: Sequence[Job], timeout: float | None = None) -> int | None: ...
