"""Trains a small classifier through the processor's own arithmetic.

    python3 train.py [--images A.npy --labels B.npy] [--format mxfp4e2m1]

    model.onnx ──compile──► program ──derive --trainable──► PyTorch module
                                                               │ a few epochs
    program  ◄──compile --weights── trained.safetensors ◄──────┘
       └─ all test pictures, on the processor and in the module: equal in every bit?

The forward pass of the training is the program's: block quantisation, f16 vectors, every rounding.
The status is 0 where all bits are equal.
"""
import argparse
import sys
import tempfile

import numpy
import torch

import digits
from processor import Processor, add_arguments, check_arguments


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", help=".npy file of 8-bit pictures (default: drawn digits)")
    parser.add_argument("--labels", help=".npy file of their classes")
    parser.add_argument("--pictures", type=int, default=600, help="how many to draw")
    parser.add_argument("--test", type=float, default=1 / 3, help="share of the test pictures")
    parser.add_argument("--format", default="mxfp4e2m1", help="number formats, see tessera --help")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    add_arguments(parser)
    arguments = parser.parse_args()
    if (arguments.images is None) != (arguments.labels is None):
        parser.error("--images and --labels belong together")
    check_arguments(parser, arguments)
    return arguments


def make_network(pictures, classes):
    """Two convolutions and a matrix product."""
    channels, rows, columns = pictures.shape[1:]
    return torch.nn.Sequential(
        torch.nn.Conv2d(channels, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(16 * (rows // 4) * (columns // 4), classes))


class Data:
    """Pictures and classes, for training and for the test, in whole batches."""

    def __init__(self, pictures, labels, arguments):
        order = numpy.random.default_rng(arguments.seed).permutation(len(pictures))
        batch = arguments.batch
        test = max(1, round(len(pictures) * arguments.test / batch)) * batch
        train = (len(pictures) - test) // batch * batch
        if train <= 0:
            raise SystemExit(f"{len(pictures)} pictures are too few for batches of {batch}")
        self.batch = batch
        self.test = pictures[order[:test]], labels[order[:test]]
        self.train = pictures[order[test:test + train]], labels[order[test:test + train]]

    def epoch(self, random):
        order = random.permutation(len(self.train[1]))
        for part in order.reshape(-1, self.batch):
            yield torch.from_numpy(self.train[0][part]), torch.from_numpy(self.train[1][part])

    def test_batches(self):
        for first in range(0, len(self.test[1]), self.batch):
            yield self.test[0][first:first + self.batch]

    def accuracy(self, logits):
        return float((logits.argmax(1) == self.test[1]).mean())


def train(forward, parameters, data, arguments):
    """The same pictures in the same order for whatever is trained."""
    random = numpy.random.default_rng(arguments.seed)
    optimiser = torch.optim.Adam(parameters, lr=3e-3)
    for epoch in range(arguments.epochs):
        total = 0.0
        for pictures, labels in data.epoch(random):
            loss = torch.nn.functional.cross_entropy(forward(pictures), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss) * len(labels)
        print(f"  epoch {epoch + 1}: loss {total / len(data.train[1]):.4f}", flush=True)


def logits_of(forward, data):
    with torch.no_grad():
        return numpy.concatenate([forward(torch.from_numpy(part)).numpy()
                                  for part in data.test_batches()])


def copy_weights(network, module):
    """The float network's weights as the module's: in the order of the layers."""
    with torch.no_grad():
        for ours, theirs in zip(module.trained().values(), network.parameters()):
            ours.copy_(theirs.reshape(ours.shape))


def compare(data, processor, derived, module, forward):
    """All test pictures; accuracies, and whether all bits are equal."""
    inside = logits_of(forward, data)
    outside = numpy.concatenate([
        processor.run(derived.INPUTS[0], derived.OUTPUTS[0], part) for part in data.test_batches()
    ])
    print(f"accuracy, derived module:           {data.accuracy(inside):.4f}")
    print(f"accuracy, {processor.arguments.device:<10} (the program):   "
          f"{data.accuracy(outside):.4f}")
    inside = inside.astype(outside.dtype)
    same = inside.shape == outside.shape and inside.tobytes() == outside.tobytes()
    print(f"{outside.size} results of {len(outside)} test pictures: "
          f"{'equal, bit for bit' if same else 'DIFFERENT'}")
    return same


def main():
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    pictures, labels = (digits.stored(arguments.images, arguments.labels) if arguments.images
                        else digits.drawn(arguments.pictures, arguments.seed))
    data = Data(pictures, labels, arguments)
    print(f"{len(data.train[1])} pictures to train with, {len(data.test[1])} for the test; "
          f"format {arguments.format}")
    network = make_network(pictures, int(labels.max()) + 1)
    with tempfile.TemporaryDirectory() as folder:
        processor = Processor(arguments, folder, arguments.format)
        example = pictures[:arguments.batch]
        processor.compile(processor.export(network, example))
        derived = processor.derive()
        module = derived.Derived()
        dtype = derived.dtype_of(derived.INPUTS[0][1])

        def forward(batch):
            return module(batch.to(dtype).reshape(derived.INPUTS[0][2]))[0].float()

        print("float32, in PyTorch:")
        train(network, network.parameters(), data, arguments)
        start = {name: tensor.detach().clone() for name, tensor in module.trained().items()}
        copy_weights(network, module)
        after = data.accuracy(logits_of(forward, data))
        with torch.no_grad():
            for name, tensor in module.trained().items():
                tensor.copy_(start[name])
        print("through the derived module, from the same start:")
        train(forward, module.parameters(), data, arguments)
        print(f"accuracy, float32:                  "
              f"{data.accuracy(logits_of(network, data)):.4f}")
        print(f"accuracy, float32 quantised after:  {after:.4f}")
        module.save_trained(processor.path("trained.safetensors"))
        processor.compile(processor.export(network, example),
                          processor.path("trained.safetensors"))
        if not compare(data, processor, derived, module, forward):
            sys.exit(1)


if __name__ == "__main__":
    main()
