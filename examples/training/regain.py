"""Regains what a narrow number format costs a trained network, by training through the program.

    python3 regain.py [--model M.onnx --images A.npy --labels B.npy] [--format bfp:3:3]

    model ──compile, wide format──► accuracy of the reference, which also teaches
          ──compile, few bits─────► accuracy before ──► a few epochs through the derived module
                                    accuracy after, in the module and on the processor: equal bits?

A picture is shifted a little whenever it is shown (and mirrored, with --flip). What is learned is
its class and, as much, the reference's probabilities. The test pictures are never trained with, and
nothing is chosen by them: what counts is the last epoch. The status is 0 where all bits are equal.
Without a model the small network of train.py is trained first, in float32.
"""
import argparse
import sys
import tempfile

import numpy
import torch

import accuracy_page
import digits
import train
from processor import Processor, add_arguments, check_arguments

SMALLEST = 1e-4  # a probability that is learned from


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="ONNX classifier (default: a small one, trained here)")
    parser.add_argument("--images", help=".npy file of 8-bit pictures (default: drawn digits)")
    parser.add_argument("--labels", help=".npy file of their classes")
    parser.add_argument("--pictures", type=int, default=600, help="how many to draw")
    parser.add_argument("--white", type=float, default=1.0, help="what the model takes a 255 for")
    parser.add_argument("--flip", action="store_true", help="mirrored pictures are of the same class")
    parser.add_argument("--test", type=float, default=1 / 3, help="share of the test pictures")
    parser.add_argument("--format", default="bfp:2:2", help="number formats, see tessera --help")
    parser.add_argument("--reference", default="bfp:11:11", help="the wide format")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=10, help="pictures a step")
    parser.add_argument("--rate", type=float, default=0.002,
                        help="largest step of a parameter, as a part of its tensor's magnitude")
    parser.add_argument("--plot", default="regain.html", help="page to write")
    parser.add_argument("--seed", type=int, default=1)
    add_arguments(parser)
    arguments = parser.parse_args()
    if (arguments.images is None) != (arguments.labels is None):
        parser.error("--images and --labels belong together")
    check_arguments(parser, arguments)
    return arguments


class Derived:
    """A program as a module that gives log probabilities."""

    def __init__(self, derived):
        self.ports = derived.INPUTS[0], derived.OUTPUTS[0]
        self.rows = derived.INPUTS[0][2][0]
        self.dtype = derived.dtype_of(derived.INPUTS[0][1])
        self.module = derived.Derived()

    def outputs(self, pictures):
        return self.module(pictures.to(self.dtype))[0].float()

    def log_probabilities(self, pictures):
        outputs = self.outputs(pictures)
        if self.is_probability(outputs.detach()):
            return torch.log(outputs.clamp(min=SMALLEST))
        return torch.log_softmax(outputs, 1)

    @staticmethod
    def is_probability(outputs):
        sums = outputs.sum(1)
        return bool((outputs >= 0).all() and (sums - 1).abs().max() < 0.05)

    def all_outputs(self, pictures):
        with torch.no_grad():
            return numpy.concatenate([
                self.outputs(torch.from_numpy(pictures[first:first + self.rows])).numpy()
                for first in range(0, len(pictures), self.rows)])


def shown(pictures, random, flip):
    """Each shifted by up to a tenth of its extent, the edge repeated."""
    result = []
    for picture in pictures:
        reach = picture.shape[-1] // 10
        wide = numpy.pad(picture, ((0, 0), (reach, reach), (reach, reach)), mode="edge")
        top, left = random.integers(0, 2 * reach + 1, 2)
        moved = wide[:, top:top + picture.shape[1], left:left + picture.shape[2]]
        result.append(moved[..., ::-1] if flip and random.integers(2) else moved)
    return torch.from_numpy(numpy.ascontiguousarray(result))


def accuracy(outputs, labels):
    return float((outputs.argmax(1) == labels).mean())


def regain(student, teacher, data, arguments):
    """Trains; the accuracy on the test pictures before and after each epoch."""
    random = numpy.random.default_rng(arguments.seed)
    groups = [{"params": [tensor], "lr": arguments.rate * float(tensor.detach().square().mean().sqrt())}
              for tensor in student.module.parameters()]
    optimiser = torch.optim.Adam(groups)
    steps = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda epoch: 1 - 0.9 * epoch / arguments.epochs)
    accuracies = [accuracy(student.all_outputs(data.test[0]), data.test[1])]
    for epoch in range(arguments.epochs):
        total = 0.0
        for pictures, labels in data.epoch(random):
            pictures = shown(pictures.numpy(), random, arguments.flip)
            with torch.no_grad():
                taught = teacher.log_probabilities(pictures)
            ours = student.log_probabilities(pictures)
            loss = (torch.nn.functional.nll_loss(ours, labels)
                    - (taught.exp() * ours).sum(1).mean()) / 2
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(labels)
        steps.step()
        accuracies.append(accuracy(student.all_outputs(data.test[0]), data.test[1]))
        print(f"  epoch {epoch + 1}: loss {total / len(data.train[1]):.4f}, "
              f"test accuracy {accuracies[-1]:.4f}", flush=True)
    return accuracies


def own_model(data, processor, arguments):
    """The network of train.py, trained in float32 on the training pictures."""
    network = train.make_network(data.train[0], int(data.train[1].max()) + 1)
    random = numpy.random.default_rng(arguments.seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(12):
        for pictures, labels in data.epoch(random):
            loss = torch.nn.functional.cross_entropy(network(pictures), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return processor.export(network, data.train[0][:data.batch])


def on_processor(processor, student, pictures):
    return numpy.concatenate([processor.run(*student.ports, pictures[first:first + student.rows])
                              for first in range(0, len(pictures), student.rows)])


def main():
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    pictures, labels = (digits.stored(arguments.images, arguments.labels) if arguments.images
                        else digits.drawn(arguments.pictures, arguments.seed))
    data = train.Data(pictures * numpy.float32(arguments.white), labels, arguments)
    print(f"{len(data.train[1])} pictures to train with, {len(data.test[1])} for the test; "
          f"format {arguments.format}, reference {arguments.reference}")
    with tempfile.TemporaryDirectory() as folder:
        wide = Processor(arguments, folder, arguments.reference)
        narrow = Processor(arguments, folder, arguments.format)
        model = arguments.model or own_model(data, wide, arguments)
        wide.compile(model)
        teacher = Derived(wide.derive("reference"))
        narrow.compile(model)
        student = Derived(narrow.derive())
        reference = accuracy(teacher.all_outputs(data.test[0]), data.test[1])
        accuracies = regain(student, teacher, data, arguments)
        student.module.save_trained(narrow.path("trained.safetensors"))
        narrow.compile(model, narrow.path("trained.safetensors"))
        inside = student.all_outputs(data.test[0])
        outside = on_processor(narrow, student, data.test[0])
    same = inside.astype(outside.dtype).tobytes() == outside.tobytes()
    rows = [(f"reference, {arguments.reference}", reference),
            (f"before training, {arguments.format}", accuracies[0]),
            ("after training, derived module", accuracies[-1]),
            (f"after training, {arguments.device} (the program)", accuracy(outside, data.test[1]))]
    for name, value in rows:
        print(f"accuracy, {name + ':':<45} {value:.4f}")
    print(f"{outside.size} results of {len(outside)} test pictures: "
          f"{'equal, bit for bit' if same else 'DIFFERENT'}")
    accuracy_page.write(
        arguments.plot, f"Training through {arguments.format}",
        f"{len(data.train[1])} pictures to train with, {len(data.test[1])} for the test.",
        [(arguments.reference, reference), ("before", accuracies[0])], accuracies, rows)
    print(f"wrote {arguments.plot}")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
