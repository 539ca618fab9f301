"""Reads the lines of pictures: a detector on one device finds them, a Python function cuts them out, a
recogniser on another device reads them.

    reading.py DETECTOR RECOGNISER PICTURE...

Prints a line for each picture: its name and the text of each line in it.
"""
import dataclasses
import sys

import numpy

import tessera

BANDS = 4
ALPHABET = " etaoin"


@dataclasses.dataclass
class Page:
    """A picture on its way through the pipeline."""
    path: str
    pixels: numpy.ndarray | None = None
    lines: list[str] = dataclasses.field(default_factory=list)

    def __fspath__(self):
        return self.path


def bands_of(scores):
    """The bands of rows with scores above the mean of all."""
    bands = numpy.split(scores[0, 0].astype(numpy.float64), BANDS)
    return [i for i, band in enumerate(bands) if band.mean() > scores.mean(dtype=numpy.float64)]


def crop(task):
    """In: the picture and the detector's scores. Out: a run of the recogniser for each line."""
    page = task.payload
    [[scores]] = task.runs
    page.pixels = tessera.resize_picture(tessera.read_picture(page.path), scores.shape[3],
                                         scores.shape[2])
    grey = page.pixels.mean(axis=2, dtype=numpy.float32) / 255
    task.runs = [[numpy.split(grey, BANDS)[band][None, None]] for band in bands_of(scores)]


def text_of(probabilities):
    """The likeliest letter of each column."""
    best = probabilities[0].mean(axis=1, dtype=numpy.float64).argmax(axis=0)
    return "".join(ALPHABET[letter] for letter in best).strip()


def read(task):
    task.payload.lines = [text_of(probabilities) for [probabilities] in task.runs]


def open_pipeline(detector, recogniser):
    runtime = tessera.Runtime([tessera.Device("host", name="finder", kernels=2, threads=2),
                               tessera.Device("sim", name="reader")])
    find = runtime.load(tessera.Network(detector), devices=["finder"])
    recognise = runtime.load(tessera.Network(recogniser), devices=["reader"])
    stages = [tessera.Stage.picture(find), *tessera.default_stages(find, "find "),
              tessera.Stage("crop", crop, threads=2),
              *tessera.default_stages(recognise, "read "), tessera.Stage("text", read)]
    return runtime, runtime.pipeline(stages)


def main(detector, recogniser, *pictures):
    runtime, pipeline = open_pipeline(detector, recogniser)
    stream = pipeline.stream()
    failed = 0
    for job, path in [(stream.submit(payload=Page(path)), path) for path in pictures]:
        try:
            page = job.wait().payload
            print(path, *(f"[{line}]" for line in page.lines))
        except tessera.Error as error:
            print(path, "-", error, f"(stage {error.stage})")
            failed += 1
    for device in runtime.devices():
        print(device["name"], device["runs"], "runs", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
