"""What is done with each fenced block of the pages: a table by page and first line of the block.

A block that is not here fails the test: add it, to be run or, with the reason, not to be run.
"""
from dataclasses import dataclass, field


@dataclass
class Shell:
    """Commands, run in the scratch folder in order; the output that the page states must be the printed one."""
    needs: tuple = ()      # what may not be installed: see NEEDS in run_examples.py
    setup: str = ""        # a command before the first
    command: str = ""      # for a block without commands: the block is the output of this
    # By the beginning of a command: another text for a part of it, or a reason not to run it.
    replace: dict = field(default_factory=dict)
    leave_out: dict = field(default_factory=dict)
    varying: tuple = ()    # patterns that differ from run to run: masked in the page and in the output
    optional: tuple = ()   # patterns of whole lines that not every run prints
    long: str = ""         # how long it takes, where only `--long` (make test-long) runs it
    everyday: "Shell | None" = None  # the smaller form of a long one, which the other runs take
    alone: str = ""        # a script that writes to one place: no two blocks run it at once
    status: int = 0        # of the last command


@dataclass
class Code:
    """A piece of a program, compiled with what it leaves out, and run."""
    before: str = ""       # in front of the function that holds the block
    begin: str = ""        # first in that function
    end: str = ""          # last in it: what must hold
    replace: dict = field(default_factory=dict)  # lines "..." of the block
    needs: tuple = ()
    setup: str = ""


@dataclass
class Excerpt:
    """Its lines are in this file, in this order."""
    file: str
    ignoring: str = ""     # a pattern that is taken off both
    quoted: bool = False   # they are a text in a program


@dataclass
class Firmware:
    """A program that must assemble; the files that it names."""
    files: dict = field(default_factory=dict)  # name: bytes


@dataclass
class Architecture:
    """A processor that a model runs on."""


@dataclass
class NotRun:
    reason: str


PICTURE = NotRun("a drawing")
BENCHMARK = NotRun("needs ONNX Runtime and a quiet machine; part of `make bench`")
NUMBER = r"(?<![\w-])\d[\d,]*(?:\.\d+)?"  # of a benchmark: rows, columns and words are compared
FLOAT_INPUT = """
tessera::Tensor input = tessera::Tensor::zeros(tessera::Format::kF32, {1, 3, 48, 320});
"""
C_BEFORE = """
#include <stdio.h>
#include <stdlib.h>
#include <tessera/tessera_c.h>
static void fail_on(tessera_error* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\\n", tessera_error_message(error));
  exit(1);
}
"""

# A cluster of three nodes behind the example, and where its master and store are.
POOL = """
tessera cluster try --nodes 3 --port 0 --json >pool.json </dev/null &
trap "kill $!" EXIT
until grep -q start pool.json; do sleep 0.05; done
master=$(sed 's/.*"master":"\\([^"]*\\)".*/\\1/' pool.json)
store=$(sed 's/.*"store":"[^"]*\\(127[^"]*\\)".*/\\1/' pool.json)
"""

BLOCKS = {
    "README.md": {
        "┌──────────────── compiler ────────────────┐": PICTURE,
        "$ tessera doctor": Shell(),
        "make demo   # installs what is missing, builds, fetches the models, reads the text in a picture":
            NotRun("installs and builds; the demo itself is the next block"),
        "$ scripts/serve_demo.sh build/release --http-port 8000 &":
            NotRun("serves until it is ended; ocr_served_line runs it"),
        "make package": NotRun("tests/packages makes the packages, installs them and uses them"),
        "16 lines of text": Shell(
            command="scripts/demo.sh build/release", needs=("ocr", "ocr_models"), long="a minute", alone="scripts/demo.sh",
            everyday=Shell(command="scripts/demo.sh build/release '' --device sim", needs=("ocr", "ocr_models"),
                           optional=(r"4 cores of cloud16: .*",), alone="scripts/demo.sh")),
        "scripts/demo.sh build/release photo.jpg --device host":
            Shell(replace={"scripts/demo.sh": ("photo.jpg", "examples/ocr/picture/station.png")}, needs=("ocr", "ocr_models"),
                  alone="scripts/demo.sh"),
        "tessera=build/release/src/tools/tessera": Shell(
            setup="mkdir nodes && cp -r /usr/share/libonnx-testdata/data/node/test_relu nodes && "
                  "cp relu.onnx a.onnx && tessera zoo mobilenet_v1 -o b.onnx",
            replace={"$tessera conform DIR": ("DIR", "nodes"),
                     "$tessera bench model.onnx": ("model.onnx", "model.onnx --seconds 0.2"),
                     "$tessera watch": ("--http 8080", "--http 0 --seconds 0.5 --record run.jsonl")},
            leave_out={"$tessera bench --suite pipeline": "docs/runtime.md runs it",
                       "$tessera top": "needs a running pipeline; top_terminal_test drives it",
                       "$tessera serve": "serves until it is ended; serve_test asks one",
                       "$tessera cluster try": "runs until it is ended; cluster_command_test asks one",
                       "$tessera master": "runs until it is ended; cluster_failures_test starts one",
                       "$tessera node": "runs until it is ended; cluster_failures_test starts one",
                       "$tessera bench --suite roofline": "docs/performance.md runs it",
                       "$tessera repro timing": "the published figures are not in this repository",
                       "$tessera repro dram": "the published figures are not in this repository",
                       "$tessera repro card": "takes minutes; card_cases_test runs parts of it",
                       "$tessera repro remote": "takes minutes; cli_test runs a small form",
                       "$tessera bench --suite cluster": "cluster_command_test runs a small form",
                       "$tessera bench --suite serve": "needs programs that load it"}),
        'chain "hidden"': Excerpt("examples/firmware/perceptron.tasm", ignoring=";.*"),
        "$ tessera derive ch_PP-OCRv4_rec_infer.onnx --shape x=1x3x48x320 --to onnx -o rec.onnx --verify 2":
            Shell(needs=("ocr_models",), long="a minute",
                  everyday=Shell(needs=("ocr_models",), replace={"tessera derive": ("--verify 2", "")},
                                 optional=(r"program and derived software .*",))),
        "$tessera report model.onnx --arch my.toml":
            Shell(setup="cp arch/tessera128.toml my.toml; tessera=build/release/src/tools/tessera"),
        "#include <tessera/tessera.h>": Code(
            begin=FLOAT_INPUT,
            end="if (!result.ok() || result->outputs.empty() || result->cycles == 0 || result->timeline.empty()) return 1;"),
        "import numpy, tessera": Code(
            needs=("python",), setup="cp relu.onnx model.onnx",
            end="assert [output.tobytes() for output in outputs] == [numpy.maximum(a, 0).tobytes() for a in arrays]"),
        "python3 -m venv --system-site-packages env": Shell(needs=("python", "pip")),
    },
    "docs/accuracy.md": {
        "$ tessera zoo mobilenet_v1 -o mobilenet.onnx": Shell(),
        "const FormatCases cases{.inputs = {{spectrum}}};": Code(
            before="using namespace tessera;\n",
            begin="Tensor spectrum = Tensor::zeros(Format::kF32, Network::load(\"model.onnx\")->inputs()[0].dims);\n"
                  "for (float& value : spectrum.as<float>()) value = 1e5f;\n",
            end="if (!choice.ok() || choice->formats.wide.empty() || !network.ok()) return 1;"),
    },
    "docs/architecture.md": {
        "model.onnx": PICTURE,
        "DRAM ◄─► memory channel ─► kernel DMA ────────────► neural engine 0..n-1": PICTURE,
        "┌────────────────── group 0 ──────────────────┐": PICTURE,
    },
    "docs/card.md": {
        "$ tessera zoo mobilenet_v1 -o mobilenet_v1.onnx && tessera run mobilenet_v1.onnx --arch cloud16 --cores 4 "
        "--timing-only": Shell(),
        "┌──────────────── group 0 ────────────────┐        ┌──── group 1 ────┐": PICTURE,
        'const VirtualCard card = *VirtualCard::open("cloud16");': Code(
            before="using namespace tessera;\n",
            begin='const Network network_a = *Network::load("model.onnx", {.arch = "cloud16"}), network_b = network_a;\n',
            end="if (first.processor().status().cores.size() != 4 || card.status().processors.size() != 2) return 1;"),
        'card = tessera.VirtualCard("cloud16", cards=2)          # C: tessera_card_open(), tessera_card_take()': Code(
            needs=("python",),
            before='import tessera\nnetwork = tessera.load("model.onnx", arch="cloud16")',
            end='assert len(part.status["cores"]) == 4'),
    },
    "docs/concordance.md": {
        "program ──► group_tasks()   which tasks might be one layer, and what the descriptors alone prove   lift_groups, lift_axis": PICTURE,
        "Graph ──expand──► Software ──folded──► ONNX (opset 17, or a newer one that a host step needs;": PICTURE,
        "share     equal constants become one; so do moves, and operations on constants, of the same operands   share": PICTURE,
        "model                           matrix   nodes   mean  most        bytes      derived  times": Shell(
            command="build/release/tests/derived/derived_size; "
                    "tests/derived/run_derived_size.sh build/release/tests/derived/derived_size stored | tail -n +2",
            needs=("derived_size", "stored_models", "ocr_models")),
        "$ tessera derive examples/firmware/perceptron.tasm --to cpp -o p.cpp --verify 2 --with c++ --plant-fault hidden":
            Shell(status=1),
        "program                              programs inputs     runs       values     compared":
            NotRun("`make check-derived` takes an hour"),
    },
    "docs/formats/firmware.md": {
        "firmware 1": Firmware(files={"w2.bin": bytes(4 * 10 * 256)}),
        "firmware 1                 ; a matrix from a queue": Firmware(),
        "program 1": NotRun("shows the form; its parts are of different programs"),
        "cores 3 memories [0, 1, 1] cards 2 images 1     ; before core 0's tasks: memory of each core, cards, "
        "images at once": NotRun("shows the form"),
    },
    "docs/fuzzing.md": {
        "make fuzz                       # builds the targets with clang 19, then runs each for 10 seconds":
            NotRun("builds all fuzz targets with clang; CI does it"),
        "build/fuzz/fuzz/npy_fuzz build/fuzz/fuzz/findings/npy-crash-0a1b...        # runs that input alone":
            NotRun("of a finding that there may be"),
    },
    "docs/numbers.md": {
        "once       P[t] = x[t] W + (Wb + Rb)                  one product for all steps and gates; biases inside the sum":
            NotRun("formulas"),
    },
    "docs/passes.md": {
        'graph "test" f16': Excerpt("src/graph/dump_test.cc", quoted=True),
    },
    "docs/performance.md": {
        "$ tessera bench --suite roofline": Shell(
            varying=(r"\d+$",), long="a minute",
            everyday=Shell(
                varying=(r"\d+$",), replace={"tessera bench": ("roofline", "roofline --networks mobilenet_v1,resnet50")},
                optional=(r"(resnet18|vgg16|googlenet|inception_v3|yolov3|yolov3_tiny|ssd_mobil\.\.\.|ssd_vgg|vit_tiny|"
                          r"bert_base) .*", r"geometric mean .*"))),
        "$ tessera bench resnet50.onnx --suite devices --repeat 12": Shell(
            setup="tessera zoo resnet50 -o resnet50.onnx",
            replace={"tessera bench": ("--repeat 12", "--repeat 2")},
            varying=(r"\b\d+\.\d{3} ", r"\b\d+\.\d (?=[\d-])", r"(?<=\d )\d+\.\d\d$", r"(?<=^sim / host )[\d.]+",
                     r"(?<=^values / timing-only )[\d.]+", r"(?<=time x )[\d.]+")),
        "for set in all avx512vnni avx512 avx2; do": BENCHMARK,
        "$ tessera bench --suite host-vs-ort --repeat 20          two cores with AMX and AVX512-FP16": BENCHMARK,
    },
    "docs/runtime.md": {
        "stream 0 ─ submit ─┐                                                                  ┌─► job done, in the": PICTURE,
        "auto runtime  = Runtime::open({.devices = {{.kind = DeviceKind::kHost}}});": Code(
            before="using namespace tessera;\n",
            begin="auto network = Network::load(\"model.onnx\");\n" + FLOAT_INPUT + "std::vector<Tensor> inputs = {input};\n",
            end="if (!result.ok() || result.result().outputs().empty()) return 1;"),
        "[dram]                        # an architecture file of your own, for --arch": Architecture(),
        'auto program = Network::load("lstm.tasm");                           // for the architecture that it names': Code(
            setup="cp examples/firmware/lstm.tasm .", before="using namespace tessera;\n",
            begin="std::vector<Tensor> vectors = {Tensor::zeros(Format::kF16, {5, 64})};\n",
            end="if (!result.ok() || result->outputs.empty() || result->cycles == 0) return 1;"),
        'auto model   = DynamicNetwork::open("recogniser.onnx", {.ranges = {{"x", {{1, 8}, {3, 3}, {48, 48}, {16, 2048}}}},':
            NotRun("tests/runtime/dynamic_network_test.cc holds this, on both devices"),
        "auto pipeline = runtime->open_pipeline(*model, {.pipelines_max = 8});   // of the dynamic network above":
            NotRun("tests/runtime/dynamic_pipeline_test.cc holds this, on both devices"),
        'auto a = Network::load("a.onnx", {.region_share = 0.75});   // compiled for a part of the memories': Code(
            setup="cp relu.onnx a.onnx && tessera zoo mobilenet_v1 -o b.onnx",
            before="using namespace tessera;\n",
            begin="std::vector<Tensor> inputs_of_a, inputs_of_b;\n"
                  "for (const auto& [name, inputs] : {std::pair{\"a.onnx\", &inputs_of_a}, {\"b.onnx\", &inputs_of_b}}) {\n"
                  "  const auto network = Network::load(name);\n"
                  "  for (const auto& input : network->inputs()) inputs->push_back(Tensor::zeros(input.format, input.dims));\n"
                  "}\n",
            end="if (!result.ok()) { fprintf(stderr, \"%s\\n\", result.error().message.c_str()); return 1; }\n"
                "for (const auto& network : result->networks) if (!network.status.ok() || network.result.outputs.empty()) return 1;"),
        "auto runtime = Runtime::open({.devices = {{.kind = DeviceKind::kSim, .virtual_functions = 4}}});   // sim0.0 .. sim0.3":
            Code(setup="tessera zoo mobilenet_v1 -o a.onnx", before="using namespace tessera;\n",
                 end="if (!runtime.ok() || !model.ok()) return 1;"),
        "sim0.0  packets ─► queue ─► turn ─┐                core: free ─► takes all turns that wait, one a function": PICTURE,
        "$ tessera bench --suite tuning": Shell(
            long="a minute", optional=(r"\d+\.\d s \w+: \d+ -> \d+ threads?.*",),
            varying=(NUMBER, r"after \* s, and from then on to the end of \* s|was not held within \* s")),
        'Memory memory = *runtime.open_memory("sim0");':
            NotRun("src/runtime/blocks_test.cc holds this chain, with the bytes that it moves"),
        "$ tessera bench --suite pipeline": Shell(long="a minute", varying=(NUMBER,)),
        "$ tessera bench --suite unequal": Shell(long="a minute", varying=(NUMBER,)),
        "$ tessera bench --suite outcomes": Shell(long="a minute", varying=(NUMBER,)),
        "$ tessera bench ch_PP-OCRv4_rec_infer.onnx --shape x=1x3x48x320 --streams 2": Shell(
            needs=("ocr_models",), replace={"tessera bench": ("--streams 2", "--streams 2 --seconds 0.5")},
            varying=(r"^advice: .*", NUMBER)),
        'build/release/examples/ocr/ocr scans/ --models "$(scripts/fetch_ocr_models.sh)" --device host,host': Shell(
            needs=("ocr", "ocr_models", "speech", "vad_model"),
            setup="mkdir -p scans recordings && cp examples/ocr/picture/station.png scans && cp tone.wav recordings"),
        'auto session = GrowingSession::open("decoder.onnx", {.states = {{"past_key_values.0.key", "present.0.key"}, ...}, .rows_max = 4096},':
            NotRun("src/runtime/growing_session_test.cc holds this, with the bits"),
        'auto pipeline = runtime->open_pipeline("decoder.onnx", {.states = {{"past_key_values.0.key", "present.0.key"}, ...}, .rows_max = 4096}, {});':
            NotRun("tests/runtime/growing_pipeline_test.cc holds this, with the bits"),
        'build/release/examples/transcribe/transcribe speech.wav --model "$(scripts/fetch_transcription_model.sh)" --device sim':
            NotRun("tests/generation runs both programs"),
        "$ transcribe jfk_16k.wav --model ... --device sim":
            NotRun("the recording is not in the tree; tests/generation compares the words"),
        '$ chat "What is the capital of France?" --model ... --device sim': Shell(
            needs=("chat", "chat_model"), setup="ln -s $PWD/build/release/examples/chat/chat bin/chat",
            replace={"chat": ("...", '"$(scripts/fetch_chat_model.sh)"')},
            varying=(r"[\d.]+ s of this machine, [\d.]+ a second",)),
        "2 threads each, 2 kernels, medians of 7 rounds; ONNX Runtime 1.30.0 in float32": BENCHMARK,
        "$ ocr pictures/ --device sim,sim --pace 0.003": Shell(
            needs=("ocr", "ocr_models"),
            setup="mkdir pictures && cp examples/ocr/picture/station.png pictures/1.png && "
                  "cp pictures/1.png pictures/2.png && ln -s $PWD/build/release/examples/ocr/ocr bin/ocr",
            replace={"ocr": ("pictures/", 'pictures/ --models "$(scripts/fetch_ocr_models.sh)"')},
            optional=(r"sim\d: .* runs took this machine longer .*",), varying=(NUMBER,)),
        "tessera_network* network = NULL;": Code(
            before=C_BEFORE, end="if (error != NULL || network == NULL) return 1;\ntessera_network_release(network);"),
        "static tessera_error* crop(void* context, tessera_task* task) {": Code(
            before=C_BEFORE,
            begin="""tessera_network* network = NULL;
fail_on(tessera_network_load("model.onnx", NULL, &network));
tessera_runtime* runtime = NULL;
fail_on(tessera_runtime_open(NULL, &runtime));
tessera_model* detector = NULL;
tessera_model* recogniser = NULL;
fail_on(tessera_model_load(runtime, network, NULL, 0, &detector));
fail_on(tessera_model_load(runtime, network, NULL, 0, &recogniser));
tessera_pipeline* pipeline = NULL;
tessera_error* error = NULL;
""",
            replace={"  ...": """  const tessera_run lines[] = {{.tensors = &map, .count = 1}};
  const size_t line_count = 1;
  (void)context;"""},
            end="fail_on(error);"),
        "python3 -m venv --system-site-packages env": Excerpt("README.md"),  # which is run
        'pipeline = tessera.GrowingPipeline(runtime, "decoder.onnx", [("past.k", "present.k"), ("past.v", "present.v")], rows_max=4096)': Code(
            needs=("python",),
            before="""import numpy, tessera, models
models.write_decoder("decoder.onnx")
runtime = tessera.Runtime([tessera.Device("host")])
token, mask = numpy.ones((1, 1, 16), numpy.float32), numpy.zeros((1, 1, 64), numpy.float32)
mask[..., 1:] = -30000
""",
            end="assert stream.rows == 1 and result.names == ['y']"),
        "def crop(task):": Code(
            needs=("python",),
            before="""import numpy, tessera, models
models.write("detector.onnx", [1, 3, 8, 8], [(2, 1)])
models.write("recogniser.onnx", [1, 2, 8, 8], [(2, 1)])
tessera.write_png("page.png", numpy.zeros((8, 8, 3), numpy.uint8))
runtime = tessera.Runtime([tessera.Device("host", name="host0"), tessera.Device("sim", name="sim0")])
def lines_of(page, scores):
    return [scores, scores]
""",
            end="assert len(result.runs) == 2"),
        "stage threads ──┐ record()    a ring for each thread": PICTURE,
        "tessera watch mobile.onnx --http 8080 --device sim --kernels 2 --timing-only --pace 0.02": Shell(
            setup="tessera zoo mobilenet_v1 -o mobile.onnx",
            replace={"tessera watch": ("--http 8080", "--http 0 --seconds 1")}),
        "$ tessera watch model.onnx --device host --seconds 600 --record run.jsonl": Shell(
            replace={"tessera watch": ("--seconds 600", "--seconds 2 --http 0"),
                     "tessera trace": ("--from 120 --to 125", "--from 0.5 --to 1")},
            varying=(r".*",)),
    },
    "docs/cluster.md": {
        "application ── device \"cluster:HOST:PORT?cores=4\" ─── tensors ──────────────┐": PICTURE,
        "$ tessera cluster try --nodes 4 &":
            NotRun("runs until it is ended; cluster_command_test asks one"),
        "salloc -N 4 tessera cluster slurm --cores 4 --run 'tessera run model.onnx --arch cloud16 --device \"$TESSERA_DEVICE\"'":
            NotRun("needs an allocation; slurm_test makes one"),
        "$ tessera cluster try --nodes 3 &":
            NotRun("runs until it is ended; cluster_test has cards of several nodes"),
        "$ tessera master --store etcd:127.0.0.1:2379 --port 7400 --tenants-file tenants.json --audit-file audit.jsonl":
            NotRun("run until they are ended; cluster_failures_test starts them"),
        "{\"tenants\": [{\"name\": \"a\", \"token\": \"at least 16 bytes\", \"cores_max\": 8, \"memory_bytes_max\": 0, \"requests_per_second_max\": 200,":
            NotRun("a file of tenants; cluster_test reads one"),
    },
    "docs/runbook.md": {
        "cp /usr/share/tessera/config/node.toml /etc/tessera/      # set id and store": NotRun("changes the machine; units_test checks units and files"),
        "$ tessera node --config node.toml --cards 2 --print-config | grep -E '^(store|cards) '": Shell(
            setup="printf 'store = \"etcd:127.0.0.1:2379\"\\nid = \"n1\"\\n' >node.toml"),
        "$ tessera doctor --cluster $master": Shell(setup=POOL, varying=(r"127\.0\.0\.1:\d+", r"\d[\d.]* ms", r"\(protocol .*\)")),
        "$ tessera cluster drain n1 --master $master": Shell(setup=POOL, leave_out={}),
        "$ etcdctl --endpoints $store snapshot save tessera.snapshot": Shell(needs=("etcd",), setup=POOL.replace("--port 0", "--port 0 --etcd"), varying=(r".*",)),
        "$ etcdctl snapshot restore tessera.snapshot --data-dir restored": Shell(
            needs=("etcd",), setup=POOL.replace("--port 0", "--port 0 --etcd") + "\netcdctl --endpoints $store snapshot save tessera.snapshot", varying=(r".*",)),
        '$ openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=Tessera authority" '
        "-keyout authority.key -out authority.pem": Shell(setup=POOL, varying=()),
    },
    "docs/serve.md": {
        "clients ══► HTTP thread    ─┬─► decode ─► [admission] ─┬────────────────► pipeline ─► encode ─► answer": PICTURE,
        "models/": PICTURE,
        '{"tenants": [': PICTURE,
        "$ tessera serve --model-repository models --http-port 8000 --grpc-port 8001 &":
            NotRun("serves until it is ended; serve_test asks one"),
        "$ tessera serve --model-repository models --cluster HOST:PORT --cores 4 --instances 2":
            NotRun("serves until it is ended; cluster_failures_test asks one"),
    },
    "docs/schedule.md": {
        "event ──► [ admit ] ──► [ divide ] ──► [ place ] ──► [ carry out ] ──► actions": PICTURE,
        "admit tenant 2 on card 0": Excerpt("src/schedule/scheduler_test.cc", quoted=True),
        "const CardSchedule schedule = *CardSchedule::open(card, {.core_counts = {1, 2, 4, 8, 16}});": Code(
            before="using namespace tessera;\n",
            begin='const VirtualCard card = *VirtualCard::open("cloud16");\n'
                  'const Network network = *Network::load("model.onnx", {.arch = "cloud16"});\n',
            end="if (!schedule.status().tenants.empty() || !a.status().cores.empty()) return 1;"),
    },
    "docs/timing.md": {
        "tessera repro timing --data FOLDER          # one table for each file that FOLDER has":
            NotRun("the published figures are not in this repository"),
        "$ tessera zoo mobilenet_v1 -o mobilenet_v1.onnx && tessera run mobilenet_v1.onnx --timing-only": Shell(),
    },
    "docs/training.md": {
        "model.onnx ──compile──► program ──derive --to pytorch --trainable──► derived.py, derived.weights": PICTURE,
        "$ python3 examples/training/train.py --tessera build/release/src/tools/tessera":
            Shell(needs=("torch",), long="a minute", varying=(r"(?<=loss )[\d.]+", r"0\.\d{4}")),
        "accuracy, float32:                  0.8400": NotRun("needs MNIST; training_test runs a smaller form of it"),
        "$ python3 examples/training/regain.py --tessera build/release/src/tools/tessera":
            Shell(needs=("torch",), long="ten seconds", varying=(r"(?<=loss )[\d.]+", r"0\.\d{4}")),
        "accuracy, reference, bfp:11:11:                         0.9100":
            NotRun("needs a stored model and pictures; regain_cifar trains it shorter"),
    },
    "examples/firmware/README.md": {
        "tessera run lstm.tasm --input x=random:7 --check-hazards    # outputs, cycles, engines":
            Shell(setup="cp examples/firmware/* ."),
    },
}
