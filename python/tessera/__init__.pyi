import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy
from numpy.typing import ArrayLike, NDArray

__version__: str

DeviceKind = Literal["host", "sim", "ref"]
StageKind = Literal["host", "pre", "execute", "post"]
DebugMode = Literal["device", "host", "both"]
Buffer = bytes | bytearray | memoryview | NDArray[Any]
# An output keeps the memory that the library wrote; bf16 comes as uint16, its bits.
Array = NDArray[Any]

class Error(Exception):
    # A stage that raised is the __cause__: the exception with its traceback.
    # What to do: "invalid argument", "invalid model", "does not fit", "unsupported", "unavailable",
    # "internal".
    code: str
    # Of a task: "error", "cancelled", "deadline", "device", "mismatch"; otherwise "none".
    failure: str
    # Number of the task in this process, and its place in its stream; 0 where it is no task's.
    task: int
    sequence: int
    stage: str
    device: str
    layer: str

class Network:
    # A model (.onnx), a package (.tpkg), a linked program (.tprog) or a firmware text (.tasm): its
    # path, or its bytes. A program runs as it is on sim, and on host and ref as the layers that are
    # read out of it; with the default of arch on the architecture that it names. folder: of bytes,
    # where the files lie that a model or a text names. deadline: seconds from now on; past it loading
    # is an error that names the pass.
    def __init__(self, path: str | os.PathLike[str] | Buffer, *, arch: str = "tessera128",
                 shapes: Mapping[str, Sequence[int]] = {},
                 constants: Mapping[str, numpy.ndarray[Any, Any]] = {},
                 require_full_offload: bool = False, folder: str = "",
                 region_share: float = 1.0, weights_file: str = "",
                 deadline: float | None = None) -> None: ...
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

class DynamicCounters(TypedDict):
    kept: int  # the network was there
    loaded: int  # its package lay in the folder
    compiled: int  # anew

# One model (.onnx) for inputs of many shapes: a network for each combination that comes, compiled when it comes. ranges: of an
# input (least, most) of each dimension, None where there is no end. buckets: of an input, for each dimension the sizes that
# there are networks for, ascending, or none of them; what is shorter is padded with zeros at its end up to the next size, and
# outputs are those of the padded inputs. networks_max: that are kept in memory. cache_folder:
# where packages are kept between processes, cache_bytes_max of them together.
class DynamicNetwork:
    def __init__(self, path: str | os.PathLike[str], *, arch: str = "tessera128",
                 shapes: Mapping[str, Sequence[int]] = {},
                 ranges: Mapping[str, Sequence[tuple[int | None, int | None]]] = {},
                 buckets: Mapping[str, Sequence[Sequence[int]]] = {},
                 networks_max: int = 16, cache_folder: str = "",
                 cache_bytes_max: int = ...) -> None: ...
    # name, dtype, shape with -1 where the model leaves it open
    @property
    def inputs(self) -> list[tuple[str, str, list[int]]]: ...
    # Names of inputs whose values have been found to decide what is computed.
    @property
    def deciding_inputs(self) -> list[str]: ...
    @property
    def counters(self) -> DynamicCounters: ...

class DynamicSession:
    def __init__(self, network: DynamicNetwork, device: DeviceKind = "host", threads: int = 0, *,
                 cores: int = 1, sessions_max: int = 4) -> None: ...
    # Arrays in the order of DynamicNetwork.inputs, or one dict by name.
    def run(self, *inputs: ArrayLike | Mapping[str, ArrayLike]) -> Result: ...

class DynamicPipelineStatus(TypedDict):
    pipelines: int  # now
    pipelines_opened: int
    submitted: int
    failed_shapes: int  # tasks for whose shapes there is no network
    waiting: int  # tasks, for a network that is compiled, or for others before them that do
    ran_in_parts: int  # tasks
    compiled: int  # networks, anew

# One stream for tasks of any shapes that the network takes; each shape has stages of its own behind it.
class DynamicPipeline:
    def __init__(self, runtime: Runtime, network: DynamicNetwork, *, devices: Sequence[str] = [],
                 pipelines_max: int = 8, jobs_max: int = 256) -> None: ...
    def stream(self, *, order: str = "submission", priority: int = 0) -> DynamicStream: ...
    def status(self) -> DynamicPipelineStatus: ...
    def wait_until_done(self) -> None: ...

class DynamicStream:
    # Arrays in the order of DynamicNetwork.inputs, or one dict by name. A new shape is compiled by a thread of the pipeline,
    # which also runs models in parts.
    def submit(self, *inputs: ArrayLike | Mapping[str, ArrayLike],
               **options: Unpack[SubmitOptions]) -> Job: ...
    def wait_until_done(self) -> None: ...
    @property
    def id(self) -> int: ...

# One sequence of a model whose states grow by a row with each run (keys and values of a decoder), in device memory that is
# never moved. states: (input, output) each, of which the output is the input with a new row. rows_max: that a state may have;
# its memory is taken at once. capacity_min: rows of the first network; the next has twice as many, and so on.
class GrowingSession:
    def __init__(self, path: str | os.PathLike[str], states: Sequence[tuple[str, str]],
                 device: DeviceKind = "host", threads: int = 0, *, rows_max: int = 1024,
                 capacity_min: int = 64, arch: str = "tessera128",
                 shapes: Mapping[str, Sequence[int]] = {}, cores: int = 1) -> None: ...
    # Arrays in the order of inputs, or one dict by name, of shapes for `capacity` rows; the result has no states.
    def run(self, *inputs: ArrayLike | Mapping[str, ArrayLike]) -> Result: ...
    def keep_rows(self, rows: int) -> None: ...  # the first ones
    def clear(self) -> None: ...
    # Without states: name, dtype, shape with -1 where the model leaves it open
    @property
    def inputs(self) -> list[tuple[str, str, list[int]]]: ...
    @property
    def rows(self) -> int: ...
    @property
    def capacity(self) -> int: ...  # rows that the next run's network sees beside the one that it makes; 0: no room
    @property
    def networks_compiled(self) -> int: ...

class GrowingPipelineStatus(TypedDict):
    streams: int  # now
    submitted: int  # tasks
    networks_compiled: int

# The same for many sequences at once, a stream for each, with tasks in flight.
class GrowingPipeline:
    def __init__(self, runtime: Runtime, path: str | os.PathLike[str], states: Sequence[tuple[str, str]], *,
                 rows_max: int = 1024, capacity_min: int = 64, arch: str = "tessera128",
                 shapes: Mapping[str, Sequence[int]] = {}, devices: Sequence[str] = [],
                 jobs_max: int = 256) -> None: ...
    # device: that holds its states; "": the one that holds those of the fewest sequences
    def stream(self, *, device: str = "", order: str = "submission", priority: int = 0) -> GrowingStream: ...
    def status(self) -> GrowingPipelineStatus: ...
    def wait_until_done(self) -> None: ...
    @property
    def inputs(self) -> list[tuple[str, str, list[int]]]: ...

# One sequence; its memory goes with it.
class GrowingStream:
    # As GrowingSession.run. Behind a task that failed others fail, until keep_rows() says where the sequence goes on.
    def submit(self, *inputs: ArrayLike | Mapping[str, ArrayLike],
               **options: Unpack[SubmitOptions]) -> Job: ...
    def keep_rows(self, rows: int) -> None: ...  # waits for the tasks that were submitted
    def clear(self) -> None: ...
    def wait_until_done(self) -> None: ...
    @property
    def rows(self) -> int: ...  # when the tasks submitted are done; or before the one that failed
    @property
    def capacity(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def id(self) -> int: ...

# The same.
def load(source: str | os.PathLike[str] | Buffer, *, arch: str = "tessera128",
         shapes: Mapping[str, Sequence[int]] = {},
         constants: Mapping[str, numpy.ndarray[Any, Any]] = {},
         require_full_offload: bool = False, folder: str = "",
         region_share: float = 1.0, weights_file: str = "",
         deadline: float | None = None,
         layer_formats: Mapping[str, Any] | None = None) -> Network: ...

# Formats by layer for load(), found on cases: each a list of arrays in the order of the inputs, a dictionary by
# name, or the array of the only input. {"mantissa_bits": {layer: bits}, "wide": [value, ...]}: values that leave the
# range of the vectors in float32; with a bound of the outputs' cosine also the cheapest mantissas that reach it, and
# "cosine", "cosine_before", "weight_bytes", "weight_bytes_before".
def choose_formats(path: str, cases: Iterable[Any], cosine: float | None = None, *,
                   arch: str = "tessera128", shapes: Mapping[str, Sequence[int]] = {},
                   threads: int = 0) -> dict[str, Any]: ...

class TaskTimes(TypedDict):  # seconds
    total: float
    transfer_in: float
    kernel: float
    transfer_out: float
    stages: list[tuple[str, float, float]]  # name, time in front of it, time in it

class Result:
    # Of the first run; `runs` has those of all.
    @property
    def outputs(self) -> list[Array]: ...
    @property
    def runs(self) -> list[list[Array]]: ...
    # Layers whose values left the range of their format, or lost all bits, though what they read was sound:
    # {"layer", "trouble", "format", "text"}.
    @property
    def value_notes(self) -> list[dict[str, str]]: ...
    # Empty behind a pipeline whose last stage is a function.
    @property
    def names(self) -> list[str]: ...
    # Simulated; 0 on host and ref.
    @property
    def cycles(self) -> int: ...
    # Besides them, in cycles of the processor's clock: of the host's steps, and of what went over the
    # link for them and for inputs and outputs, by the model of the architecture file.
    @property
    def host_cycles(self) -> int: ...
    @property
    def transfer_cycles(self) -> int: ...
    @property
    def device(self) -> str: ...
    # Within the stream, from 0.
    @property
    def sequence(self) -> int: ...
    # What was submitted, or what a stage put in its place.
    @property
    def payload(self) -> Any: ...
    @property
    def times(self) -> TaskTimes: ...
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
    # Of a path that ends with .onnx, or of a DynamicNetwork, a DynamicSession: its shapes are those of the arrays.
    @overload
    def __new__(cls, network: str | os.PathLike[str] | DynamicNetwork, device: DeviceKind = "host",
                threads: int = 0, *, cores: int = 1, sessions_max: int = 4) -> DynamicSession: ...  # type: ignore[misc]
    @overload
    def __new__(cls, network: Network, device: DeviceKind = "host", threads: int = 0,
                **options: Any) -> Session: ...
    # traps: values that end a run on sim with an error, "nan,overflow" say.
    # cores, cards, split ("auto", "w", "oc"): of a card, sim only. processor: the part of a card that
    # others use, too, on which it runs; not with cores or cards.
    def __init__(self, network: Network, device: DeviceKind = "host", threads: int = 0, *,
                 traps: str = "", cores: int = 1, cards: int = 1, split: str = "auto",
                 processor: VirtualProcessor = ...) -> None: ...
    # Arrays in the order of Network.inputs, or one dict by name.
    # They are read where they lie if they are what the network takes. out: arrays to be filled.
    def run(self, *inputs: ArrayLike | Mapping[str, ArrayLike],
            out: Sequence[Array] | None = None) -> Result: ...
    # As Stream.bind_states; run leaves out these inputs and outputs.
    def bind_states(self,
                    bindings: Iterable[tuple[int, int] | tuple[int, int, ArrayLike]]) -> None: ...
    @property
    def traffic(self) -> dict[str, int]: ...  # bytes_in, bytes_out, bytes_copied

class SharedNetworkResult(TypedDict):
    outputs: list[Array]
    error: str | None  # why it was stopped: the task and the reason
    arrival: int  # cycles
    end: int
    host_cycles: int  # of its host steps
    transfer_cycles: int

class SharedResult(TypedDict):
    cycles: int
    networks: list[SharedNetworkResult]

# Several networks on one core of sim; each has its part of the memories (region_share) and a queue.
class SharedSession:
    # priorities (higher first), arrivals_us and shares: one for each network, or none.
    # traps: values that stop a network alone, "nan,overflow" say.
    def __init__(self, networks: Sequence[Network], *, priorities: Sequence[int] = (),
                 arrivals_us: Sequence[float] = (), shares: Sequence[float] = (),
                 timing_only: bool = False, check_hazards: bool = False,
                 traps: str = "") -> None: ...
    # For each network its arrays in the order of Network.inputs, or one dict by name.
    def run(self, *inputs: Sequence[ArrayLike] | Mapping[str, ArrayLike]) -> SharedResult: ...

class Job:
    # TimeoutError after `timeout` seconds; the task goes on.
    def wait(self, timeout: float | None = None) -> Result: ...
    def done(self) -> bool: ...
    def cancel(self) -> None: ...
    @property
    def id(self) -> int: ...

class SubmitOptions(TypedDict, total=False):
    # Called by a thread of the library, or the one that cancels, with the result or the error, and None for the other. What it
    # raises goes to sys.unraisablehook, and is the Error of Job.wait().
    callback: Callable[[Result | None, Error | None], object] | None
    deadline: float | None  # seconds from now on
    payload: object  # the application's own, for stages and the result; a picture's path
    priority: int | None  # -7 to 7; None: that of the stream
    skip: Sequence[str]  # names of stages
    wait: bool  # for room (the default), else Error

class NetworkOptions(SubmitOptions, total=False):
    outputs: Sequence[Block | Array | str | None] | None
    fetch: bool
    copy: bool

class OperationOptions(SubmitOptions, total=False):
    weights: Block | None  # of a matrix product: a region of many
    weight_offset: int  # bytes into it
    fetch: bool  # bring the output back as part of the task

class Stream:
    # As Session.run; any arrays, or none, where the pipeline begins with a function.
    # Blocks stand for arrays. outputs: of each None (an array of the result), a block, "keep" (a new
    # block in the result) or an array to be filled. fetch: bring blocks back as part of the task.
    # copy=False: arrays are read where they lie and must not change before the task is done.
    def submit(self, *inputs: ArrayLike | Block | Mapping[str, ArrayLike | Block],
               **options: Unpack[NetworkOptions]) -> Job: ...
    # From now on output `output` of a task is input `input` of the next, and stays in the memory:
    # (output, input) or (output, input, initial value). An empty list ends it.
    def bind_states(self, memory: Memory,
                    bindings: Iterable[tuple[int, int] | tuple[int, int, ArrayLike]]) -> None: ...
    # One task with several runs of the model.
    def submit_runs(self, runs: Iterable[Sequence[ArrayLike]],
                    **options: Unpack[SubmitOptions]) -> Job: ...
    # One task for each entry; the options are those of each.
    def submit_batch(self, tasks: Iterable[Sequence[ArrayLike]],
                     **options: Unpack[SubmitOptions]) -> list[Job]: ...
    # Of a pipeline that Runtime.operations opened. Tasks use a block in the order in which they were
    # submitted.
    def submit_layer(self, layers: Layers, layer: int, inputs: Sequence[Block],
                     outputs: Sequence[Block], fetch: bool = False,
                     **options: Unpack[SubmitOptions]) -> Job: ...
    def submit_operation(self, operation: Operation, input: Block, output: Block,
                         **options: Unpack[OperationOptions]) -> Job: ...
    def wait_until_done(self) -> None: ...
    @property
    def id(self) -> int: ...

# What a stage of one's own sees of a task, while it is called.
class Task:
    # Inputs for the model behind, outputs of the one before: of each run a list of arrays, to be
    # changed or set. A model runs once for each; no runs are allowed.
    runs: list[list[Array]]
    payload: Any
    @property
    def stream(self) -> int: ...
    # Within the stream, from 0.
    @property
    def sequence(self) -> int: ...

class Stage:
    # Called by threads of the library, with the interpreter's lock; by several where threads > 1.
    # What it raises ends the task with an Error.
    def __init__(self, name: str, function: Callable[[Task], object], *, threads: int = 0,
                 capacity: int = 0, batch: int = 0) -> None: ...
    @staticmethod
    def pre(model: Model, *, name: str = "pre", threads: int = 0, capacity: int = 0,
            batch: int = 0) -> Stage: ...
    # `devices`: of those that hold the model; none: all of them. `threads` 0: two a kernel.
    @staticmethod
    def execute(model: Model, *, name: str = "execute", devices: Sequence[str] = [],
                threads: int = 0, capacity: int = 0, batch: int = 0) -> Stage: ...
    @staticmethod
    def post(model: Model, *, name: str = "post", threads: int = 0, capacity: int = 0,
             batch: int = 0) -> Stage: ...
    # Reads the .png or .jpg file whose path is the task's payload, as the model's only input:
    # (level - mean) / deviation of each channel.
    @staticmethod
    def picture(model: Model, *, name: str = "decode", mean: Sequence[float] = [0, 0, 0],
                deviation: Sequence[float] = [255, 255, 255], bgr: bool = False,
                threads: int = 0) -> Stage: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> StageKind: ...

# pre, execute and post of one model, their names behind the prefix.
def default_stages(model: Model, prefix: str = "") -> list[Stage]: ...

class StageStatus(TypedDict):
    name: str
    kind: StageKind
    threads: int
    running: int  # threads that work now
    kernels: int
    queued: int
    capacity: int
    tasks: int
    batches: int
    busy_seconds: float
    thread_seconds: float  # threads times time: what busy_seconds is a share of

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
    tuning: bool
    debug: DebugMode
    callbacks_threw: int  # callbacks of tasks, and the tuning log
    callback_error: str  # what the last of them raised

class PipelineOptions(TypedDict, total=False):
    jobs_max: int  # in flight, of all streams together; 256
    handover: Literal["free-flow", "lock-step"]
    hint: Literal["throughput", "latency"]
    tune: bool  # balance the threads of the stages while running
    tuning_log: Callable[[str], object] | None  # called with what tuning did and why, by its thread
    debug: DebugMode  # "both": every layer is compared with the host, a difference is an Error
    debug_every: int  # one of this many tasks; the others run on the device

class Pipeline:
    # Results in the order of "submission", or of "completion": each as soon as it is there. Of two
    # tasks that wait the one of the higher priority (-7 to 7) goes first.
    def stream(self, *, order: str = "submission", priority: int = 0) -> Stream: ...
    def status(self) -> PipelineStatus: ...
    # While tasks flow, by the stage's name; none is lost.
    def set_threads(self, stage: str, threads: int) -> None: ...
    def set_kernels(self, stage: str, kernels: int) -> None: ...
    # A tuning log may switch it off, not on again.
    def set_tuning(self, on: bool) -> None: ...
    def set_debug(self, mode: DebugMode, every: int = 1) -> None: ...
    def wait_until_done(self) -> None: ...

class Device:
    def __init__(self, kind: DeviceKind = "host", *, name: str = "", arch: str = "tessera128",
                 kernels: int = 1, threads: int = 0, pace: float = 0.0,
                 timing_only: bool = False, hang_timeout: float = 0.0,
                 virtual_functions: int = 1, traps: str = "", cores: int = 1, cards: int = 1,
                 split: str = "auto", processor: VirtualProcessor = ...) -> None: ...

class ProcessorStatus(TypedDict):
    name: str
    cores: list[int]
    groups: list[int]  # that these are in
    memory_first: int  # in the memory of each of these groups
    memory_bytes: int
    weight: int  # of each channel, among those who have cores in the group
    running: bool
    clearing: bool  # what it gives up is being cleared
    networks: list[str]
    runs: int
    failures: int
    last_run_cycles: int  # of the card's clock
    last_run_images: int
    changes: int  # how often it got other cores
    cleared_bytes: int
    cleared_cycles: int

class CardPart(TypedDict):
    kind: str
    index: int
    card: int
    busy_cycles: int
    bytes: int

class CardStatus(TypedDict):
    arch: str
    clock_hertz: int
    cards: int
    groups: int  # of all cards
    cores_per_group: int
    memory_bytes: int  # of each group
    cycles: int  # of the card's clock
    processors: list[ProcessorStatus]
    parts: list[CardPart]

class VirtualProcessor:
    @property
    def name(self) -> str: ...
    @property
    def status(self) -> ProcessorStatus: ...
    # Other cores, while runs go on: so many, or just these.
    def resize(self, cores: int) -> None: ...
    def move(self, core_numbers: list[int]) -> None: ...

class VirtualCard:
    def __init__(self, arch: str = "cloud16", cards: int = 1) -> None: ...
    # A tenant's part. memory_bytes: of each group in which it has a core; 0: a group's by its cores.
    def take(self, *, name: str = "", cores: int = 1, core_numbers: list[int] = [],
             memory_bytes: int = 0, weight: int = 1) -> VirtualProcessor: ...
    @property
    def status(self) -> CardStatus: ...

class ClusterPlace(TypedDict):
    node: str
    card: int
    cores: list[int]

class ClusterAllocation(TypedDict):
    name: str
    tenant: str
    state: str  # "placed", "waits" for a node with room, "unreachable"
    places: list[ClusterPlace]  # of each of its cards
    cores: int  # that it has, or waits for
    arch: str
    memory_bytes: int
    weight: int
    epoch: int  # larger with each node that it comes to
    device: str  # for Session, Runtime, Device(cluster=...)

# The processors that a tenant has in a cluster. What is acquired stays until it is released, also behind the end of the process.
class Cluster:
    # "cluster:HOST:PORT[,HOST:PORT...][?tenant=T&token_file=F...]"
    def __init__(self, address: str) -> None: ...
    # cores 0: all of so many cards.
    def acquire(self, *, name: str = "", cores: int = 1, cards: int = 1, arch: str = "", node: str = "",
                memory_bytes: int = 0, weight: int = 1) -> ClusterAllocation: ...
    def resize(self, name: str, cores: int) -> ClusterAllocation: ...
    def release(self, name: str) -> None: ...
    @property
    def allocations(self) -> list[ClusterAllocation]: ...

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
    functions: int  # virtual functions of its cores, of which it is one
    joint_runs: int  # of a virtual function, beside those of others
    late_runs: int  # paced: the model was slower than the modelled processor
    runs_made_again: int  # given up here, since they lasted far too long, and made elsewhere
    bytes_in: int
    bytes_out: int
    weight_bytes: int
    bytes_copied: int
    busy_seconds: float
    kernel_busy_seconds: list[float]

class Layer(TypedDict):
    name: str
    inputs: list[tuple[str, str, tuple[int, ...]]]  # as Network.inputs
    outputs: list[tuple[str, str, tuple[int, ...]]]
    weight_offset: int  # in the region that all layers share
    weight_bytes: int

# Bytes that host and device hold together; moved only where the other side has newer ones.
# memoryview(block) and numpy.asarray(block) are its bytes on the host; __dlpack__ fetches them.
class Block:
    @property
    def dtype(self) -> str: ...  # bfloat16 as uint16
    @property
    def shape(self) -> tuple[int, ...]: ...
    # Of a matrix in blocks, as an architecture may have them at the edges of networks; else None.
    @property
    def dense_shape(self) -> tuple[int, ...] | None: ...
    @property
    def device(self) -> str: ...
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    # A view; None: one dimension. It keeps the block.
    def array(self, dtype: str = "float16", shape: Sequence[int] | None = None) -> Array: ...
    @property
    def nbytes(self) -> int: ...
    def wrote(self) -> None: ...  # the host has changed them
    def fetch(self) -> None: ...  # makes them what the device last wrote

class Layers:
    def __len__(self) -> int: ...
    @property
    def descriptions(self) -> list[Layer]: ...

class Memory:
    @property
    def device(self) -> str: ...
    # So many bytes; or of this shape, where there is a dtype.
    def allocate(self, size: int | Sequence[int], dtype: str | None = None) -> Block: ...
    def upload(self, array: ArrayLike) -> Block: ...  # a copy, which goes over once
    # The array's own memory, by the buffer protocol or DLPack: in place where memory is shared.
    def wrap(self, array: Any) -> Block: ...
    def load(self, network: Network) -> Layers: ...

# On matrices of float16: an image (rows, columns, channels) has a row for each pixel.
class Operation:
    @staticmethod
    def im2col(image: tuple[int, int, int], size: int, stride: int = 1,
               pad: int = 0) -> Operation: ...
    @staticmethod
    def matrix_product(rows: int, inner: int, columns: int) -> Operation: ...
    @staticmethod
    def relu(rows: int, columns: int) -> Operation: ...
    @staticmethod
    def maximum_pool(image: tuple[int, int, int], size: int, stride: int = 1,
                     pad: int = 0) -> Operation: ...

class LiveView:
    @property
    def url(self) -> str: ...

class Runtime:
    def __init__(self, devices: list[DeviceKind | Device] | None = None, *,
                 metrics: bool = True) -> None: ...
    # `device_form`: pre and post convert at the network's edges; the same bits, fewer bytes moved.
    def load(self, network: Network, *, devices: Sequence[str] = [],
             device_form: bool = False) -> Model: ...
    # pre, execute and post of a model, or stages of any kind.
    def pipeline(self, what: Model | Network | Sequence[Stage],
                 **options: Unpack[PipelineOptions]) -> Pipeline: ...
    # Layers and operations on the memory of a device.
    def operations(self, **options: Unpack[PipelineOptions]) -> Pipeline: ...
    def memory(self, device: str) -> Memory: ...
    def devices(self) -> list[DeviceStatus]: ...
    def write_trace(self, path: str) -> None: ...  # Perfetto / Chrome trace
    def write_events(self, path: str) -> None: ...  # JSON lines
    def prometheus(self) -> str: ...
    # Of pipelines whose stages can be changed there. `listen`: PORT or ADDRESS:PORT.
    def live_view(self, pipelines: Sequence[Pipeline] = [], *, listen: str = "127.0.0.1:0",
                  title: str = "Tessera") -> LiveView: ...

# 8-bit RGB, uint8 of (height, width, 3). Reads .png and .jpg; resizes bilinear.
def read_picture(path: str) -> Array: ...
def write_png(path: str, picture: Array) -> None: ...
def resize_picture(picture: Array, width: int, height: int) -> Array: ...
# The picture as that input of the network, resized: (level - mean) / deviation of each channel.
def picture_input(picture: Array, network: Network, input: int = 0, *,
                  mean: Sequence[float] = [0, 0, 0], deviation: Sequence[float] = [255, 255, 255],
                  bgr: bool = False) -> Array: ...

# The place of a job that is done; None after `timeout` seconds, or where there are no jobs.
def wait_any(jobs: Sequence[Job], timeout: float | None = None) -> int | None: ...
