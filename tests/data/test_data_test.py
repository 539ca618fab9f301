#!/usr/bin/env python3
"""Tests of what makes the test data: a small TensorFlow Lite model, written with FlatBuffers' own compiler,
gives as ONNX the results that its definition says; speech is the same each time.

    test_data_test.py TESSERA FLATC
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy
    import PIL  # pylint: disable=unused-import
except ModuleNotFoundError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import make_test_data
import speech
import tflite_to_onnx

TESSERA, FLATC = sys.argv[1:3]

# The part of TensorFlow Lite's schema that a convolution, a quantised one too, and a reshape need.
SCHEMA = """
table QuantizationParameters { min:[float]; max:[float]; scale:[float]; zero_point:[long]; }
table Tensor { shape:[int]; type:byte; buffer:uint; name:string; quantization:QuantizationParameters; }
table Buffer { data:[ubyte]; }
table OperatorCode { deprecated_builtin_code:byte; }
table Conv2DOptions { padding:byte; stride_w:int; stride_h:int; fused_activation_function:byte; }
table ReshapeOptions { new_shape:[int]; }
union BuiltinOptions { Conv2DOptions, ReshapeOptions }
table Operator { opcode_index:uint; inputs:[int]; outputs:[int]; builtin_options:BuiltinOptions; }
table SubGraph { tensors:[Tensor]; inputs:[int]; outputs:[int]; operators:[Operator]; }
table Model { version:uint; operator_codes:[OperatorCode]; subgraphs:[SubGraph]; description:string; buffers:[Buffer]; }
root_type Model;
"""
FLOAT, INT32, UINT8 = 0, 2, 3
CONVOLUTION, RESHAPE = 3, 22


def tensor(name, shape, kind=FLOAT, buffer=0, scale=None):
    row = {"shape": shape, "type": kind, "buffer": buffer, "name": name}
    if scale:
        row["quantization"] = {"scale": [scale[0]], "zero_point": [scale[1]]}
    return row


def model(weights, bias, kind, scales):
    """x [1, 5, 4, 2] through a 3x3 convolution of stride 2, padded to the same size, with RELU6, and a reshape."""
    buffers = [[], list(weights.tobytes()), list(bias.tobytes())]
    scale = scales or [None] * 5
    return {
        "version": 3, "operator_codes": [{"deprecated_builtin_code": CONVOLUTION}, {"deprecated_builtin_code": RESHAPE}],
        "subgraphs": [{
            "tensors": [tensor("x", [1, 5, 4, 2], kind, 0, scale[0]), tensor("w", [3, 3, 3, 2], kind, 1, scale[1]),
                        tensor("b", [3], INT32 if scales else FLOAT, 2, scale[2]),
                        tensor("y", [1, 3, 2, 3], kind, 0, scale[3]), tensor("z", [1, 18], kind, 0, scale[4])],
            "inputs": [0], "outputs": [4],
            "operators": [
                {"opcode_index": 0, "inputs": [0, 1, 2], "outputs": [3], "builtin_options_type": "Conv2DOptions",
                 "builtin_options": {"padding": 0, "stride_w": 2, "stride_h": 2, "fused_activation_function": 3}},
                {"opcode_index": 1, "inputs": [3], "outputs": [4], "builtin_options_type": "ReshapeOptions",
                 "builtin_options": {"new_shape": [1, 18]}}]}],
        "buffers": [{"data": data} for data in buffers]}


def convolved(x, weights, bias):
    """[1, 18], by the definition: channels last, one row and column of zeros around, but none above and left."""
    padded = numpy.zeros((7, 5, 2))
    padded[1:6, 0:4] = x[0]
    result = numpy.zeros((3, 2, 3))
    for row in range(3):
        for column in range(2):
            part = padded[2 * row:2 * row + 3, 2 * column:2 * column + 3]
            result[row, column] = (weights * part).sum(axis=(1, 2, 3)) + bias
    return numpy.clip(result, 0, 6).reshape(1, 18)


class Translation(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def run_onnx(self, description, x):
        (self.folder / "schema.fbs").write_text(SCHEMA)
        (self.folder / "model.json").write_text(json.dumps(description))
        subprocess.run([FLATC, "-b", "schema.fbs", "model.json"], cwd=self.folder, check=True)
        shape, names = tflite_to_onnx.convert(self.folder / "model.bin", self.folder / "model.onnx")
        self.assertEqual((shape, names), ([1, 2, 5, 4], ["output0"]))
        numpy.save(self.folder / "x.npy", numpy.ascontiguousarray(x.transpose(0, 3, 1, 2)))
        subprocess.run([TESSERA, "run", "model.onnx", "--arch", "f32", "--device", "ref", "--input", "input=x.npy",
                        "--output", "out"], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        return numpy.load(self.folder / "out/output0.npy")

    def test_a_convolution_and_a_reshape(self):
        random = numpy.random.default_rng(1)
        weights = random.integers(-3, 4, (3, 3, 3, 2)).astype(numpy.float32) / 4
        bias = numpy.array([0.5, -0.25, 1], numpy.float32)
        x = random.integers(-3, 4, (1, 5, 4, 2)).astype(numpy.float32)
        found = self.run_onnx(model(weights, bias, FLOAT, None), x)
        self.assertTrue((found == convolved(x, weights, bias)).all(), found)

    def test_a_quantised_one(self):
        random = numpy.random.default_rng(2)
        weights = random.integers(100, 156, (3, 3, 3, 2)).astype(numpy.uint8)
        bias = numpy.array([40, -20, 8], numpy.int32)
        x = random.integers(100, 156, (1, 5, 4, 2)).astype(numpy.uint8)
        scales = [(0.25, 128), (0.125, 128), (0.03125, 0), (0.5, 3), (0.5, 3)]
        found = self.run_onnx(model(weights, bias, UINT8, scales), x)
        exact = convolved((x - 128.0) / 4, (weights - 128.0) / 8, bias / 32)
        # To whole steps of the output's scale, ties to even.
        self.assertTrue((found == numpy.round(exact / 0.5) * 0.5).all(), found - exact)
        self.assertEqual(make_test_data.operators_of(self.folder / "model.onnx").split()[0], "DequantizeLinear:4")


class Speech(unittest.TestCase):
    def test_is_the_same_each_time_and_fits_its_format(self):
        one, again = speech.phrase(1, 0.5), speech.phrase(1, 0.5)
        self.assertEqual((one.size, one.tobytes()), (8000, again.tobytes()))
        self.assertTrue(0.1 < abs(one).max() <= 1)
        self.assertNotEqual(one.tobytes(), speech.phrase(2, 0.5).tobytes())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
