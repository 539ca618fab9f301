"""Memory that host and device share, layers and operations, pictures, and what a runtime shows."""
import gc
import json
import os
import subprocess
import tempfile
import unittest
import urllib.request

try:
    import numpy
except ModuleNotFoundError:
    import sys
    print("skipped: NumPy is not installed")
    sys.exit(77)

import models
import tessera

RELU = "/usr/share/libonnx-testdata/data/node/test_relu/model.onnx"  # x f32 [3, 4, 5] -> y


def values(seed=1, shape=(3, 4, 5)):
    """Numbers that the processor's vectors (f16) hold as they are."""
    numbers = numpy.random.default_rng(seed).standard_normal(shape)
    return numbers.astype(numpy.float16).astype(numpy.float32)


class OnACluster(unittest.TestCase):
    """A processor of a cluster, by its name."""

    def test_a_cluster_is_a_device(self):
        cluster = subprocess.Popen(
            [os.environ["TESSERA_TOOL"], "cluster", "try", "--nodes", "2", "--port", "0", "--json"],
            stdout=subprocess.PIPE, text=True)
        try:
            name = json.loads(cluster.stdout.readline())["device"]
            network = tessera.load(RELU, arch="cloud16")
            expected = tessera.Session(network, "sim").run(values())[0]
            session = tessera.Session(network, name)
            numpy.testing.assert_array_equal(session.run(values())[0], expected)
            runtime = tessera.Runtime([name, tessera.Device(cluster=name)])
            stream = runtime.pipeline(runtime.load(network)).stream()
            for job in [stream.submit(values()) for _ in range(8)]:
                numpy.testing.assert_array_equal(job.wait()[0], expected)
            with self.assertRaisesRegex(tessera.Error, "17 cores are wanted"):
                tessera.Session(network, name.replace("cores=4", "cores=17"))
            del stream, runtime, session
            mine = tessera.Cluster(name.split("?")[0])
            taken = mine.acquire(name="mine", cores=2)
            self.assertEqual([taken["name"], taken["state"], taken["cores"]], ["mine", "placed", 2])
            session = tessera.Session(network, taken["device"])
            numpy.testing.assert_array_equal(session.run(values())[0], expected)
            self.assertEqual(mine.resize("mine", 5)["cores"], 5)
            numpy.testing.assert_array_equal(session.run(values())[0], expected)
            listed = [one for one in mine.allocations if one["name"] == "mine"]
            self.assertEqual([len(one["places"][0]["cores"]) for one in listed], [5])
            mine.release("mine")
            with self.assertRaisesRegex(tessera.Error, "'mine'"):
                mine.release("mine")
        finally:
            cluster.terminate()
            cluster.communicate()


class OnACard(unittest.TestCase):
    """Tenants of a virtual card, and several cores of one's own."""

    def test_tenants_have_the_bits_of_one_core(self):
        network = tessera.load(RELU, arch="cloud16")
        card = tessera.VirtualCard(cards=2)
        first = card.take(name="first", core_numbers=[0, 1])
        second = card.take(cores=4, weight=2)
        expected = tessera.Session(network, "sim").run(values())[0]
        sessions = [tessera.Session(network, "sim", processor=one) for one in (first, second)]
        for session in sessions:
            numpy.testing.assert_array_equal(session.run(values())[0], expected)
        first.resize(1)
        first.move([31])
        numpy.testing.assert_array_equal(sessions[0].run(values())[0], expected)
        status = card.status
        self.assertEqual((status["cards"], status["groups"], status["arch"]), (2, 8, "cloud16"))
        self.assertEqual([one["name"] for one in status["processors"]], ["first", second.name])
        self.assertEqual(status["processors"][0]["cores"], [31])
        self.assertEqual(first.status["runs"], 2)
        self.assertEqual(first.status["changes"], 2)
        self.assertGreater(first.status["cleared_cycles"], 0)
        self.assertEqual(second.status["weight"], 2)
        with self.assertRaisesRegex(tessera.Error, "tenant 'first': there are two of this name"):
            card.take(name="first")
        with self.assertRaisesRegex(tessera.Error, "allowed 0 .none. to 32"):
            second.resize(33)
        del sessions, session, first, second
        gc.collect()
        self.assertEqual(card.status["processors"], [])

    def test_a_tenant_is_a_device_of_a_runtime(self):
        network = tessera.load(RELU, arch="cloud16")
        card = tessera.VirtualCard()
        runtime = tessera.Runtime([tessera.Device("sim", processor=card.take(cores=2))])
        model = runtime.load(network)
        stream = runtime.pipeline(model).stream()
        given = values(3)
        numpy.testing.assert_array_equal(stream.submit(given).wait()[0], numpy.maximum(given, 0))
        self.assertEqual(card.status["processors"][0]["runs"], 1)

    def test_cores_of_a_card_of_ones_own(self):
        network = tessera.load(RELU, arch="cloud16")
        expected = tessera.Session(network, "sim").run(values())[0]
        for cores, cards, split in ((4, 1, "w"), (16, 1, "auto"), (8, 2, "oc")):
            session = tessera.Session(network, "sim", cores=cores, cards=cards, split=split)
            numpy.testing.assert_array_equal(session.run(values())[0], expected)
        with self.assertRaisesRegex(tessera.Error, "split 'columns' is not known"):
            tessera.Session(network, "sim", cores=4, split="columns")
        with self.assertRaises(tessera.Error):
            tessera.Session(network, "host", cores=4)


class Deadlines(unittest.TestCase):
    """Loading ends when its time is over."""

    def test_the_error_names_the_pass(self):
        with self.assertRaisesRegex(tessera.Error, "the deadline passed in the pass 'infer'"):
            tessera.Network(RELU, deadline=1e-9)
        with self.assertRaisesRegex(tessera.Error, "deadline is -1"):
            tessera.Network(RELU, deadline=-1)
        self.assertEqual(len(tessera.load(RELU, deadline=600).inputs), 1)


class OnOneCore(unittest.TestCase):
    """Several networks share a core of the virtual processor."""

    def test_each_network_gives_what_it_gives_alone(self):
        network = tessera.Network(RELU, region_share=0.5)
        session = tessera.SharedSession([network, network], priorities=[0, 5], arrivals_us=[0, 1])
        first, second = values(1), values(2)
        result = session.run([first], {"x": second})
        for array, given in ((first, result["networks"][0]), (second, result["networks"][1])):
            self.assertIsNone(given["error"])
            numpy.testing.assert_array_equal(given["outputs"][0],
                                             tessera.Session(network, "sim").run(array)[0])
            self.assertGreater(given["end"], given["arrival"])
        self.assertEqual(result["networks"][1]["arrival"], 1400)
        # 240 bytes in, and as many out: 2,000 ns and 15 ns each at 1.4 GHz.
        self.assertEqual(result["networks"][1]["transfer_cycles"], 2 * 2821)
        self.assertEqual(result["networks"][1]["host_cycles"], 0)
        self.assertEqual(result["cycles"], max(one["end"] for one in result["networks"]))

    def test_a_trap_stops_its_own_network(self):
        network = tessera.Network(RELU, region_share=0.5)
        session = tessera.SharedSession([network, network], traps="nan")
        bad = values(2)
        bad[1, 2, 3] = numpy.nan
        result = session.run([values(1)], [bad])
        self.assertIsNone(result["networks"][0]["error"])
        self.assertRegex(result["networks"][1]["error"], r"step \d+: trap nan: a NaN in ")
        with self.assertRaisesRegex(tessera.Error, r"step \d+: trap nan: a NaN in "):
            tessera.Session(network, "sim", traps="nan").run(bad)
        with self.assertRaisesRegex(tessera.Error, "trap 'heat' is not known"):
            tessera.Session(network, "sim", traps="heat")
        with self.assertRaisesRegex(tessera.Error, "traps belong to the device sim; the device is"):
            tessera.Session(network, "host", traps="nan")

    def test_a_device_traps(self):
        runtime = tessera.Runtime([tessera.Device("sim", traps="nan")])
        pipeline = runtime.pipeline(runtime.load(tessera.Network(RELU)))
        bad = values(2)
        bad[1, 2, 3] = numpy.nan
        with self.assertRaisesRegex(tessera.Error, "trap nan: a NaN in "):
            pipeline.stream().submit(bad).wait()
        pipeline.stream().submit(values(1)).wait()
        with self.assertRaisesRegex(tessera.Error, "trap 'heat' is not known"):
            tessera.Device("sim", traps="heat")

    def test_what_does_not_go_together_is_an_error(self):
        network = tessera.Network(RELU)
        with self.assertRaisesRegex(tessera.Error, "priorities: 1 given for 2 networks"):
            tessera.SharedSession([network, network], priorities=[1])
        with self.assertRaisesRegex(tessera.Error, "inputs of 1 networks, the session has 2"):
            tessera.SharedSession([network, network], shares=[0.5, 0.5]).run([values()])


class VirtualFunctions(unittest.TestCase):
    """A device sim appears as several."""

    def test_each_function_is_a_device(self):
        runtime = tessera.Runtime([tessera.Device("sim", virtual_functions=2)])
        devices = runtime.devices()
        self.assertEqual([device["name"] for device in devices], ["sim0.0", "sim0.1"])
        self.assertEqual([device["functions"] for device in devices], [2, 2])
        network = tessera.Network(RELU, region_share=0.5)
        model = runtime.load(network, devices=["sim0.1"])
        given = values(3)
        result = runtime.pipeline(model).stream().submit(given).wait(timeout=60)
        numpy.testing.assert_array_equal(result[0], numpy.maximum(given, 0))
        self.assertEqual(result.device, "sim0.1")
        self.assertEqual((result.host_cycles, result.transfer_cycles), (0, 2 * 2821))

    def test_too_many_are_an_error(self):
        with self.assertRaisesRegex(tessera.Error, "17 virtual functions; allowed 1 to 16"):
            tessera.Runtime([tessera.Device("sim", virtual_functions=17)])


class OnMemory(unittest.TestCase):
    def open(self, kind):
        self.runtime = tessera.Runtime([tessera.Device(kind, name="card")])
        self.memory = self.runtime.memory("card")
        self.stream = self.runtime.operations().stream()

    def filled(self, array):
        block = self.memory.allocate(array.nbytes)
        block.array(str(array.dtype), array.shape)[:] = array
        block.wrote()
        return block

    def test_a_chain_of_layers_moves_its_first_input_and_last_output(self):
        self.open("sim")
        with tempfile.TemporaryDirectory() as folder:
            network = tessera.Network(
                models.write(f"{folder}/m.onnx", (1, 3, 12, 16), [(8, 1), (5, 2), (4, 1)]))
        layers = self.memory.load(network)
        self.assertGreaterEqual(len(layers), 3)
        self.assertEqual(self.memory.device, "card")

        def size(description):
            _, dtype, shape = description
            return numpy.dtype(dtype).itemsize * int(numpy.prod(shape))

        first, last = layers.descriptions[0], layers.descriptions[-1]
        before = self.runtime.devices()[0]
        array = values(1, (1, 3, 12, 16))
        blocks = [self.filled(array.astype(first["inputs"][0][1]))]
        for i, layer in enumerate(layers.descriptions):
            blocks.append(self.memory.allocate(size(layer["outputs"][0])))
            self.stream.submit_layer(layers, i, blocks[-2:-1], blocks[-1:]).wait()
        blocks[-1].fetch()
        after = self.runtime.devices()[0]
        self.assertEqual(after["bytes_in"] - before["bytes_in"], size(first["inputs"][0]))
        self.assertEqual(after["bytes_out"] - before["bytes_out"], size(last["outputs"][0]))
        name, dtype, shape = last["outputs"][0]
        expected = tessera.Session(network, "ref").run(array)[0]
        found = blocks[-1].array(dtype, shape)
        self.assertEqual(found.astype(expected.dtype).tobytes(), expected.tobytes())
        self.assertGreater(layers.descriptions[-1]["weight_offset"], 0)

    def test_the_four_operations_give_what_numpy_does(self):
        # Small integers: every sum is exact, whatever its order.
        random = numpy.random.default_rng(3)
        image = random.integers(-2, 3, (6, 4, 3)).astype(numpy.float16)
        weights = random.integers(-2, 3, (27, 8)).astype(numpy.float16)
        padded = numpy.pad(image, ((1, 1), (1, 1), (0, 0)))
        columns = numpy.stack([padded[r:r + 3, c:c + 3].ravel() for r in range(6) for c in range(4)])
        sums = (columns.astype(numpy.float32) @ weights.astype(numpy.float32)).astype(numpy.float16)
        pooled = numpy.maximum(sums, 0).reshape(3, 2, 2, 2, 8).max(axis=(1, 3)).reshape(6, 8)
        for kind in ("sim", "host"):
            self.open(kind)
            region = self.filled(numpy.concatenate([numpy.zeros(64, numpy.float16), weights.ravel()]))
            blocks = [self.filled(image.reshape(24, 3)), self.memory.allocate(columns.nbytes),
                      *(self.memory.allocate(sums.nbytes) for _ in range(2)),
                      self.memory.allocate(pooled.nbytes)]
            operation = tessera.Operation
            steps = [(operation.im2col((6, 4, 3), size=3, pad=1), {}),
                     (operation.matrix_product(24, 27, 8), {"weights": region, "weight_offset": 128}),
                     (operation.relu(24, 8), {}),
                     (operation.maximum_pool((6, 4, 8), size=2, stride=2), {"fetch": True})]
            for i, (step, options) in enumerate(steps):
                result = self.stream.submit_operation(step, blocks[i], blocks[i + 1], payload=i,
                                                      **options).wait()
                self.assertEqual((len(result), result.runs, result.payload), (0, [], i))
                self.assertEqual(result.cycles > 0, kind == "sim")
            self.assertEqual(blocks[-1].array().tobytes(), pooled.tobytes(), kind)
            blocks[2].fetch()
            self.assertEqual(blocks[2].array().tobytes(), sums.tobytes(), kind)

    def test_an_array_keeps_its_block_and_a_task_its_blocks(self):
        self.open("host")
        array = self.filled(numpy.arange(8, dtype=numpy.float16)).array()
        gc.collect()
        self.assertEqual(array.tolist(), list(range(8)))
        x, y = self.filled(values(1, (64,)).astype("f2")), self.memory.allocate(128)
        view = y.array()
        job = self.stream.submit_operation(tessera.Operation.relu(8, 8), x, y, fetch=True)
        expected = numpy.maximum(x.array(), 0).tobytes()
        del x, y
        job.wait()
        self.assertEqual(view.tobytes(), expected)

    def test_wrong_tasks_are_told_why(self):
        self.open("host")
        block = self.memory.allocate(8)
        self.assertEqual(block.nbytes, 8)
        layers = self.memory.load(tessera.Network(RELU))
        for call, text in (
                (lambda: self.memory.allocate(0), "a block of 0 bytes"),
                (lambda: self.runtime.memory("disk"), "there is no device 'disk'"),
                (lambda: block.array("float32", (3,)), "an array of 12 bytes; the block has 8"),
                (lambda: block.array("float32", (-1, 2)), "a negative extent"),
                (lambda: block.array("object"), "an array"),
                (lambda: self.stream.submit(values()), "single layers and operations"),
                (lambda: self.stream.submit_layer(layers, 99, [], []), "layer 99 of a network"),
                (lambda: self.stream.submit_operation(tessera.Operation.matrix_product(1, 2, 2),
                                                      block, block), "has weights")):
            with self.assertRaises(tessera.Error) as caught:
                call()
            self.assertIn(text, str(caught.exception))
        with self.assertRaises(TypeError):
            self.stream.submit_operation(tessera.Operation.relu(2, 2), block, block, offset=3)


class Seeing(unittest.TestCase):
    def test_figures_events_and_the_live_page(self):
        runtime = tessera.Runtime([tessera.Device("sim", name="card", kernels=2)])
        pipeline = runtime.pipeline(tessera.Network(RELU))
        page = runtime.live_view([pipeline], title="from Python")
        for job in [pipeline.stream().submit(values(seed)) for seed in range(6)]:
            job.wait()
        device = runtime.devices()[0]
        self.assertEqual((device["runs"], device["late_runs"], device["healthy"]), (6, 0, True))
        self.assertAlmostEqual(sum(device["kernel_busy_seconds"]), device["busy_seconds"])
        status = pipeline.status()
        self.assertEqual([stage["kind"] for stage in status["stages"]], ["pre", "execute", "post"])
        self.assertEqual((status["tuning"], status["debug"]), (False, "device"))
        with tempfile.TemporaryDirectory() as folder:
            runtime.write_events(f"{folder}/events.jsonl")
            with open(f"{folder}/events.jsonl") as file:
                events = [json.loads(line) for line in file]
            self.assertGreater(len(events), 6)
            with self.assertRaises(tessera.Error):
                runtime.write_events(f"{folder}/nowhere/events.jsonl")
        del pipeline  # the page keeps it
        with urllib.request.urlopen(page.url + "/metrics", timeout=60) as answer:
            self.assertIn("card", answer.read().decode())
        del page
        gc.collect()
        quiet = tessera.Runtime(["host"], metrics=False)
        quiet.pipeline(tessera.Network(RELU)).stream().submit(values()).wait()

    def test_tuning_and_debugging_change_while_tasks_flow(self):
        import time
        said = []
        runtime = tessera.Runtime(["sim"])
        model = runtime.load(tessera.Network(RELU))
        stages = [tessera.Stage("slow", lambda task: time.sleep(0.002)),
                  *tessera.default_stages(model)]
        pipeline = runtime.pipeline(stages, tuning_log=said.append)
        pipeline.set_tuning(True)
        pipeline.set_debug("both", every=2)
        stream = pipeline.stream()
        tasks = 0
        while not said and tasks < 20000:
            stream.submit(values(), callback=lambda result, error: None)
            tasks += 1
        self.assertIn("slow", said[0])
        stream.wait_until_done()
        self.assertTrue(pipeline.status()["tuning"])
        pipeline.set_tuning(False)
        status = pipeline.status()
        self.assertEqual((status["compared"], status["mismatches"]), ((tasks + 1) // 2, 0))
        self.assertEqual((status["debug"], status["tuning"]), ("both", False))
        pipeline.set_debug("host")
        self.assertEqual(stream.submit(values()).wait().device, "debug")

    def test_device_form_gives_the_same_bits_with_half_the_bytes(self):
        network = tessera.Network(RELU)
        results = []
        for device_form in (False, True):
            runtime = tessera.Runtime(["sim"])
            model = runtime.load(network, device_form=device_form)
            before = runtime.devices()[0]["bytes_in"]
            output = runtime.pipeline(model).stream().submit(values()).wait()[0]
            results.append((output.tobytes(), runtime.devices()[0]["bytes_in"] - before))
        self.assertEqual(results[0][0], results[1][0])
        self.assertEqual([moved for _, moved in results], [240, 120])

    def test_block_layout_of_the_architecture(self):
        dense = tessera.Session(tessera.Network(RELU), "host").run(values())[0]
        with tempfile.TemporaryDirectory() as folder:
            arch = os.path.join(folder, "blocks.toml")
            with open(arch, "w", encoding="ascii") as file:
                file.write("[dram]\nedge_block_rows = 32\nedge_block_columns = 64\n")
            network = tessera.Network(RELU, arch=arch)
            self.assertEqual(network.inputs[0][2], (3, 4, 5))
            for kind in ("sim", "host", "ref"):
                output = tessera.Session(network, kind).run(values())[0]
                self.assertEqual(output.tobytes(), dense.tobytes())
            runtime = tessera.Runtime([tessera.Device("sim", arch=arch)])
        stream = runtime.pipeline(runtime.load(network)).stream()
        before = runtime.devices()[0]["bytes_in"]
        result = stream.submit(values(), outputs=["keep"]).wait()
        self.assertEqual(runtime.devices()[0]["bytes_in"] - before, 32 * 64 * 4)
        block = result[0]
        self.assertEqual((block.shape, block.dense_shape), ((1, 1, 32, 64), (3, 4, 5)))
        self.assertIsNone(runtime.memory("sim0").allocate((3, 4, 5), "float32").dense_shape)
        # Negative values are gone already: another time changes nothing.
        again = stream.submit(block).wait()[0]
        self.assertEqual(again.tobytes(), dense.tobytes())
        self.assertEqual(runtime.devices()[0]["bytes_in"] - before, 32 * 64 * 4)

    def test_options_of_devices(self):
        with self.assertRaises(tessera.Error) as caught:
            tessera.Device(hang_timeout=-1.0)
        self.assertIn("hang_timeout", str(caught.exception))
        runtime = tessera.Runtime([tessera.Device("sim", timing_only=True, hang_timeout=60.0)])
        result = runtime.pipeline(tessera.Network(RELU)).stream().submit(values()).wait()
        self.assertGreater(result.cycles, 0)


class Pictures(unittest.TestCase):
    def test_pictures_are_read_resized_and_made_inputs(self):
        levels = numpy.random.default_rng(1).integers(0, 256, (20, 30, 3), numpy.uint8)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "picture.png")
            tessera.write_png(path, levels[:, ::-1])  # of any layout
            numpy.testing.assert_array_equal(tessera.read_picture(path), levels[:, ::-1])
            model = models.write(f"{folder}/m.onnx", (1, 3, 20, 30), [(2, 1)])
            network = tessera.Network(model)
        self.assertEqual(tessera.resize_picture(levels, 15, 10).shape, (10, 15, 3))
        found = tessera.picture_input(levels, network, mean=[1, 2, 3], deviation=[2, 4, 8], bgr=True)
        wanted = (levels[:, :, ::-1].astype(numpy.float32) - [1, 2, 3]) / numpy.float32([2, 4, 8])
        numpy.testing.assert_array_equal(found[0], wanted.transpose(2, 0, 1).astype(numpy.float32))
        for call in (lambda: tessera.resize_picture(levels, 0, 1),
                     lambda: tessera.write_png("x.png", levels[:, :, 0]),
                     lambda: tessera.picture_input(levels, network, 1),
                     lambda: tessera.picture_input(levels, network, mean=[1]),
                     lambda: tessera.picture_input(values(), network)):
            with self.assertRaises(tessera.Error):
                call()


if __name__ == "__main__":
    unittest.main()
