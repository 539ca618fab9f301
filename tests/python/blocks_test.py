"""Networks on blocks of device memory and on memory of Python's: what is moved, what is copied."""
import pathlib
import sys
import unittest

try:
    import numpy
except ModuleNotFoundError:
    print("skipped: NumPy is not installed")
    sys.exit(77)

import tessera

CASES = pathlib.Path("/usr/share/libonnx-testdata/data/node")
RELU = str(CASES / "test_relu" / "model.onnx")  # x f32 [3, 4, 5] -> y
ADD = str(CASES / "test_add" / "model.onnx")  # x, y f32 [3, 4, 5] -> sum
BYTES = 3 * 4 * 5 * 4


def values(seed=1, shape=(3, 4, 5)):
    """Numbers that the processor's vectors (f16) hold as they are."""
    numbers = numpy.random.default_rng(seed).integers(-64, 64, shape)
    return numbers.astype(numpy.float32)


def moved(runtime):
    device = runtime.devices()[0]
    return (device["bytes_in"] - device["weight_bytes"], device["bytes_out"],
            device["bytes_copied"])


class Dlpack:
    """An object that has DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **_):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Blocks(unittest.TestCase):
    def ideal(self, device, moves):
        return moves if device == "sim" else (0, 0, 0)

    def test_a_chain_of_networks_moves_its_first_input_and_last_output(self):
        for device in ("sim", "host"):
            runtime = tessera.Runtime([device])
            memory = runtime.memory(device + "0")
            pipelines = [runtime.pipeline(tessera.Network(RELU)) for _ in range(4)]
            blocks = [memory.allocate((3, 4, 5), "float32") for _ in range(3)]
            x = values()
            jobs = [pipelines[0].stream().submit(x, outputs=[blocks[0]])]
            for i in (1, 2):
                jobs.append(pipelines[i].stream().submit(blocks[i - 1], outputs=[blocks[i]]))
            last = pipelines[3].stream().submit(blocks[2]).wait()
            self.assertEqual(last[0].tobytes(), numpy.maximum(x, 0).tobytes())
            self.assertIsInstance(jobs[0].wait()[0], tessera.Block)
            self.assertEqual(moved(runtime), self.ideal(device, (BYTES, BYTES, 0)))

    def test_a_picture_that_is_uploaded_goes_over_once(self):
        runtime = tessera.Runtime(["sim"])
        picture = runtime.memory("sim0").upload(values(2))
        first, second = (runtime.pipeline(tessera.Network(RELU)).stream() for _ in range(2))
        for _ in range(3):
            first.submit(picture).wait()
            second.submit({"x": picture}).wait()
        self.assertEqual(moved(runtime), (BYTES, 6 * BYTES, 0))

    def test_an_output_is_kept_and_read_later(self):
        runtime = tessera.Runtime(["sim"])
        stream = runtime.pipeline(tessera.Network(RELU)).stream()
        block = stream.submit(values(3), outputs=["keep"]).wait()["y"]
        self.assertEqual((block.dtype, block.shape, block.device), ("float32", (3, 4, 5), "sim0"))
        self.assertEqual(moved(runtime), (BYTES, 0, 0))
        lent = numpy.from_dlpack(block)  # fetches
        self.assertEqual(moved(runtime), (BYTES, BYTES, 0))
        self.assertEqual(lent.tobytes(), numpy.maximum(values(3), 0).tobytes())
        viewed = numpy.asarray(block)
        self.assertTrue(numpy.shares_memory(viewed, lent))
        self.assertEqual(bytes(memoryview(block)), lent.tobytes())
        del block, lent
        self.assertEqual(viewed.shape, (3, 4, 5))

    def test_memory_of_the_application_is_read_and_filled_in_place(self):
        for device in ("sim", "host"):
            runtime = tessera.Runtime([device])
            pipeline = runtime.pipeline(tessera.Network(RELU))
            x, y = values(4), numpy.empty((3, 4, 5), numpy.float32)
            for given in (x, Dlpack(x)):
                y[:] = -1
                pipeline.stream().submit(given, outputs=[y], copy=False).wait()
                self.assertEqual(y.tobytes(), numpy.maximum(x, 0).tobytes())
            self.assertEqual(moved(runtime), self.ideal(device, (2 * BYTES, 2 * BYTES, 0)))
            memory = runtime.memory(device + "0")
            a, b = memory.wrap(x), memory.wrap(y)
            y[:] = -1
            pipeline.stream().submit(a, outputs=[b], fetch=True).wait()
            self.assertEqual(y.tobytes(), numpy.maximum(x, 0).tobytes())
            self.assertEqual(moved(runtime), self.ideal(device, (3 * BYTES, 3 * BYTES, 0)))

    def test_a_session_reads_and_fills_arrays_in_place(self):
        session = tessera.Session(tessera.Network(RELU), "host", threads=1)
        x, y = values(5), numpy.empty((3, 4, 5), numpy.float32)
        result = session.run(x, out=[y])
        self.assertIs(result[0], y)
        self.assertEqual(y.tobytes(), numpy.maximum(x, 0).tobytes())
        self.assertEqual(session.run(Dlpack(x))[0].tobytes(), y.tobytes())
        self.assertEqual(session.traffic, {"bytes_in": 0, "bytes_out": 0, "bytes_copied": 0})
        with self.assertRaisesRegex(tessera.Error, "out: array 0 may not be written"):
            session.run(x, out=[y[:1]])
        # Rows that lie apart are put together first.
        self.assertEqual(session.run(values(6, (5, 4, 3)).T)["y"].shape, (3, 4, 5))

    def test_a_state_stays_on_the_device(self):
        network = tessera.Network(ADD)
        runtime = tessera.Runtime(["sim"])
        stream = runtime.pipeline(network).stream()
        stream.bind_states(runtime.memory("sim0"), [(0, 1)])
        chunks = [values(i) for i in range(5)]
        jobs = [stream.submit(chunk) for chunk in chunks]
        last = jobs[-1].wait()[0]
        last.fetch()
        self.assertEqual(numpy.asarray(last).tobytes(), sum(chunks).tobytes())
        # The chunks and the zeros in, the last sum out.
        self.assertEqual(moved(runtime), (6 * BYTES, BYTES, 0))
        session = tessera.Session(network, "sim")
        session.bind_states([(0, 1, values(9))])
        for chunk in chunks:
            session.run(chunk)
        self.assertEqual(session.traffic, {"bytes_in": 6 * BYTES, "bytes_out": 0,
                                           "bytes_copied": 0})

    def test_what_does_not_fit_is_an_error(self):
        runtime = tessera.Runtime(["host"])
        memory = runtime.memory("host0")
        stream = runtime.pipeline(tessera.Network(RELU)).stream()
        frozen = values(7)
        frozen.flags.writeable = False
        for call, text in (
                (lambda: stream.submit(memory.allocate(8)).wait(), "a block of 8 bytes"),
                (lambda: stream.submit(values(), outputs=[frozen]), "an array that may be written"),
                (lambda: memory.wrap(frozen), "an array that may be written"),
                (lambda: memory.allocate((3,), "float17"), "the dtype 'float17' is none of"),
                (lambda: stream.bind_states(memory, [(0,)]), "a state is"),
                (lambda: stream.submit({"z": memory.allocate(BYTES)}), "that the model has not")):
            with self.assertRaisesRegex(tessera.Error, text):
                call()


if __name__ == "__main__":
    unittest.main()
