"""A TensorFlow Lite model as ONNX: one operator for one, channels first, quantised tensors between
QuantizeLinear and DequantizeLinear. What has a meaning in TensorFlow Lite alone (its box decoding) is left out.
"""
import pathlib
import sys

import numpy

import tflite

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from models import ints, message  # pylint: disable=wrong-import-position,import-error

ONNX_TYPES = {numpy.float32: 1, numpy.uint8: 2, numpy.int8: 3, numpy.int32: 6, numpy.int64: 7}
OPSET = 13
RELU, RELU6 = 1, 3


def integer(name, value):
    return message((1, name), (3, value), (20, 2))


def value_info(name, dtype, shape):
    dims = message(*((1, message((1, extent))) for extent in shape))
    return message((1, name), (2, message((1, message((1, ONNX_TYPES[dtype]), (2, dims))))))


class Writer:
    """The ONNX graph as it grows."""

    def __init__(self, model):
        self.model = model
        self.nodes, self.constants = [], {}
        self.values = {}   # number of a tensor: (name of its value in float32, whether its channels stand first)

    def constant(self, name, array):
        if name not in self.constants:
            array = numpy.ascontiguousarray(array)
            self.constants[name] = message(*((1, extent) for extent in array.shape),
                                           (2, ONNX_TYPES[array.dtype.type]), (8, name), (9, array.tobytes()))
        return name

    def node(self, kind, inputs, output, *attributes):
        self.nodes.append(message(*((1, name) for name in inputs), (2, output), (3, f"op{len(self.nodes)}_{kind}"),
                                  (4, kind), *((5, attribute) for attribute in attributes)))
        return output

    def scale_of(self, number):
        tensor = self.model.tensors[number]
        return [self.constant(f"t{number}_scale", numpy.float32(tensor.scale)),
                self.constant(f"t{number}_zero_point", tensor.dtype(tensor.zero_point))]

    def quantised(self, number, name):
        """The float value behind the tensor's quantisation; the same value where it has none."""
        if self.model.tensors[number].scale == 0:
            return name
        quantised = self.node("QuantizeLinear", [name, *self.scale_of(number)], f"t{number}_quantised")
        return self.node("DequantizeLinear", [quantised, *self.scale_of(number)], f"t{number}_value")

    def weights(self, number, array):
        """A constant of the model in the order of ONNX."""
        name = self.constant(f"t{number}", array)
        if self.model.tensors[number].scale == 0:
            return name
        return self.node("DequantizeLinear", [name, *self.scale_of(number)], f"t{number}_weights")

    def activated(self, name, activation):
        if activation == RELU:
            return self.node("Relu", [name], name + "_relu")
        if activation == RELU6:
            limits = [self.constant("zero", numpy.float32(0)), self.constant("six", numpy.float32(6))]
            return self.node("Clip", [name, *limits], name + "_clip")
        assert activation == 0, activation
        return name

    def plain(self, number):
        """The value in the order that TensorFlow Lite has, channels last."""
        name, channels_first = self.values[number]
        shape = self.model.tensors[number].shape
        if not channels_first or shape[1] * shape[2] == 1:
            return name
        return self.node("Transpose", [name], f"t{number}_plain", ints("perm", [0, 2, 3, 1]))


def window(shape, kernel, stride, padding):
    """strides and pads; padding 0: as much as makes ceil(size / stride) of each size."""
    begins, ends = [], []
    for size, extent, step in zip(shape[1:3], kernel, stride):
        total = max((-(-size // step) - 1) * step + extent - size, 0) if padding == 0 else 0
        begins.append(total // 2)
        ends.append(total - total // 2)
    return [ints("strides", stride), ints("pads", begins + ends)]


def convolution(writer, operator, depthwise):
    model, options = writer.model, operator.options
    source, weights, bias = operator.inputs
    array = model.tensors[weights].constant
    order = (3, 0, 1, 2) if depthwise else (0, 3, 1, 2)  # to [output channels, channels of a group, rows, columns]
    group = model.tensors[source].shape[3] if depthwise else 1
    stride = [options.number(2), options.number(1)]
    inputs = [writer.values[source][0], writer.weights(weights, array.transpose(order)),
              writer.weights(bias, model.tensors[bias].constant)]
    result = writer.node("Conv", inputs, f"t{operator.outputs[0]}_conv", integer("group", group),
                         *window(model.tensors[source].shape, array.shape[1:3], stride, options.number(0, "<b")))
    return writer.activated(result, options.number(4 if depthwise else 3, "<b"))


def average_pool(writer, operator):
    options, source = operator.options, operator.inputs[0]
    kernel = [options.number(4), options.number(3)]
    result = writer.node("AveragePool", [writer.values[source][0]], f"t{operator.outputs[0]}_pool",
                         ints("kernel_shape", kernel),
                         *window(writer.model.tensors[source].shape, kernel, [options.number(2), options.number(1)],
                                 options.number(0, "<b")))
    return writer.activated(result, options.number(5, "<b"))


def concatenation(writer, operator):
    names = [writer.plain(number) for number in operator.inputs]
    return writer.node("Concat", names, f"t{operator.outputs[0]}_concat", integer("axis", operator.options.number(0)))


def translate(writer, operator):
    """(name of the result, whether its channels stand first, whether it is quantised again)"""
    output = operator.outputs[0]
    if operator.kind in {"CONV_2D", "DEPTHWISE_CONV_2D"}:
        return convolution(writer, operator, operator.kind != "CONV_2D"), True, True
    if operator.kind == "AVERAGE_POOL_2D":
        return average_pool(writer, operator), True, True
    if operator.kind == "CONCATENATION":
        return concatenation(writer, operator), False, True
    if operator.kind == "RESHAPE":
        shape = writer.constant(f"t{output}_shape", numpy.array(writer.model.tensors[output].shape, numpy.int64))
        return writer.node("Reshape", [writer.plain(operator.inputs[0]), shape], f"t{output}_reshape"), False, False
    if operator.kind == "SOFTMAX":
        return writer.node("Softmax", [writer.plain(operator.inputs[0])], f"t{output}_softmax",
                           integer("axis", len(writer.model.tensors[output].shape) - 1)), False, True
    assert operator.kind == "LOGISTIC", operator.kind
    return writer.node("Sigmoid", [writer.plain(operator.inputs[0])], f"t{output}_sigmoid"), False, True


def convert(path, target):
    """Writes the ONNX model; gives [shape of the input, channels first] and the names of the outputs back."""
    model = tflite.read(path)
    writer = Writer(model)
    source = model.inputs[0]
    tensor = model.tensors[source]
    shape = [tensor.shape[0], tensor.shape[3], *tensor.shape[1:3]]
    name = "input"
    if tensor.scale != 0:
        name = writer.node("DequantizeLinear", ["input", *writer.scale_of(source)], "input_value")
    writer.values[source] = (name, True)
    outputs = model.outputs
    for operator in model.operators:
        if operator.kind == "CUSTOM":
            outputs = [number for number in operator.inputs if number in writer.values]
            continue
        number = operator.outputs[0]
        result, channels_first, quantised = translate(writer, operator)
        writer.values[number] = (writer.quantised(number, result) if quantised else result, channels_first)
    names = []
    for i, number in enumerate(outputs):
        names.append(writer.node("Identity", [writer.plain(number)], f"output{i}"))
    graph = message(*((1, node) for node in writer.nodes), (2, "network"),
                    *((5, constant) for constant in writer.constants.values()),
                    (11, value_info("input", tensor.dtype, shape)),
                    *((12, value_info(name, numpy.float32, model.tensors[number].shape))
                      for name, number in zip(names, outputs)))
    with open(target, "wb") as file:
        file.write(message((1, 7), (2, "Tessera's test data"), (7, graph), (8, message((2, OPSET)))))
    return shape, names
