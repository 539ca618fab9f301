"""The package `tessera` as a program sees it. PYTHONPATH names it, TESSERA_TOOL the command line."""
import ast
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

try:
    import numpy
except ModuleNotFoundError:
    print("skipped: NumPy is not installed")
    sys.exit(77)

import models
import tessera

CASES = pathlib.Path("/usr/share/libonnx-testdata/data/node")
RELU = str(CASES / "test_relu" / "model.onnx")  # x f32 [3, 4, 5] -> y


def values(seed=1, shape=(3, 4, 5)):
    """Numbers that the processor's vectors (f16) hold as they are."""
    numbers = numpy.random.default_rng(seed).standard_normal(shape)
    return numbers.astype(numpy.float16).astype(numpy.float32)


def positive(array):
    return numpy.maximum(array, 0)


class Bits(unittest.TestCase):
    """What the command line writes, which calls the C++ interface, is what arrays hold."""

    def compare(self, case, device):
        model = str(CASES / case / "model.onnx")
        network = tessera.Network(model)
        inputs = {name: values(i + 1, shape)
                  for i, (name, _, shape) in enumerate(network.inputs)}
        with tempfile.TemporaryDirectory() as folder:
            words = [os.environ["TESSERA_TOOL"], "run", model, "--device", device,
                     "--output", folder]
            for name, array in inputs.items():
                numpy.save(f"{folder}/in_{name}.npy", array)
                words += ["--input", f"{name}={folder}/in_{name}.npy"]
            subprocess.run(words, check=True, capture_output=True)
            expected = {name: numpy.load(f"{folder}/{name}.npy") for name, *_ in network.outputs}
        by_session = tessera.Session(network, device, threads=1).run(inputs)
        pipeline = tessera.Runtime([device]).pipeline(network)
        by_runtime = pipeline.stream().submit(*inputs.values()).wait()
        self.assertEqual(by_session.names, list(expected))
        for name, array in expected.items():
            for result in (by_session, by_runtime):
                self.assertEqual(result[name].dtype, array.dtype)
                self.assertEqual(result[name].shape, array.shape)
                self.assertEqual(result[name].tobytes(), array.tobytes(), (case, device, name))
            self.assertTrue(numpy.isfinite(array).all() and array.any(), case)

    def test_equal_the_command_line_on_every_device(self):
        for case in ("test_gemm_all_attributes", "test_softmax_example",
                     "test_conv_with_strides_padding", "test_relu"):
            for device in ("host", "sim", "ref"):
                with self.subTest(case=case, device=device):
                    self.compare(case, device)


class Loading(unittest.TestCase):
    """Bytes in place of a path, and programs in place of models."""

    def run_on(self, network, device="sim"):
        inputs = {name: numpy.full(shape, 0.25, dtype) for name, dtype, shape in network.inputs}
        result = tessera.Session(network, device, threads=1).run(inputs)
        return [array.tobytes() for array in result.outputs], result.cycles

    def test_models_packages_and_programs_load_from_memory(self):
        network = tessera.Network(RELU)
        expected = self.run_on(network)
        data = pathlib.Path(RELU).read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            network.save_package(f"{folder}/relu.tpkg")
            package = pathlib.Path(f"{folder}/relu.tpkg").read_bytes()
            subprocess.run([os.environ["TESSERA_TOOL"], "link", f"{folder}/relu.tpkg", "-o",
                            f"{folder}/relu.tprog"], check=True, capture_output=True)
            program = pathlib.Path(f"{folder}/relu.tprog").read_bytes()
            self.assertEqual(self.run_on(tessera.load(f"{folder}/relu.tprog")), expected)
        for source in (RELU, pathlib.Path(RELU), data, bytearray(data), memoryview(data),
                       numpy.frombuffer(data, numpy.uint8), package, program):
            self.assertEqual(self.run_on(tessera.load(source)), expected)
            self.assertEqual(self.run_on(tessera.Network(source)), expected)
        for wrong in (b"", b"no model", data[:50], program[:-1], memoryview(data)[::2]):
            with self.assertRaises(tessera.Error):
                tessera.load(wrong)
        with self.assertRaises(TypeError):
            tessera.load(7)
        with self.assertRaises(tessera.Error) as raised:
            tessera.load(program).save_package("never.tpkg")
        self.assertEqual(str(raised.exception),
                         "'memory' is a program; saving a package needs a package or the model")

    def test_firmware_runs_as_on_the_command_line(self):
        examples = pathlib.Path(__file__).parents[2] / "examples" / "firmware"
        tool = os.environ["TESSERA_TOOL"]
        with tempfile.TemporaryDirectory() as folder:
            for name in ("perceptron", "lstm"):
                text = str(examples / f"{name}.tasm")
                network = tessera.Network(text)
                words = [tool, "run", text, "--json", "--output", folder]
                for i, (input_name, dtype, shape) in enumerate(network.inputs):
                    numpy.save(f"{folder}/{i}.npy", numpy.full(shape, 0.25, dtype))
                    words += ["--input", f"{input_name}={folder}/{i}.npy"]
                document = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
                outputs = [numpy.load(f"{folder}/{output}.npy").tobytes()
                           for output, *_ in network.outputs]
                program = f"{folder}/{name}.tprog"
                subprocess.run([tool, "asm", text, "-o", program], check=True, capture_output=True)
                for source in (text, program, pathlib.Path(program).read_bytes()):
                    loaded = tessera.load(source)
                    self.assertEqual(self.run_on(loaded), (outputs, document["cycles"]), name)
                    for device in ("host", "ref"):
                        self.assertEqual(self.run_on(loaded, device)[0], outputs, (name, device))


class Shapes(unittest.TestCase):
    def test_a_session_of_a_path_takes_its_shapes_from_the_arrays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "open.onnx")
            models.write(path, (1, 3, -1, -1), [(4, 1)])
            for source in (path, pathlib.Path(path), tessera.DynamicNetwork(path)):
                session = tessera.Session(source, "sim")
                for shape in ((1, 3, 8, 8), (1, 3, 5, 30)):
                    array = values(2, shape)
                    fixed = tessera.Network(path, shapes={"x": shape})
                    expected = tessera.Session(fixed, "sim").run(array)
                    numpy.testing.assert_array_equal(session.run(array)[0], expected[0])
            package = os.path.join(folder, "fixed.tpkg")
            fixed.save_package(package)
            numpy.testing.assert_array_equal(tessera.Session(package, "sim").run(array)[0], expected[0])
            with self.assertRaises(TypeError):
                tessera.Session(7)

    def test_buckets_pad_what_is_shorter(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "open.onnx")
            models.write(path, (1, 3, -1, -1), [(4, 1)])
            network = tessera.DynamicNetwork(path, buckets={"x": [[], [], [], [16, 32]]})
            session = tessera.Session(network)
            for width in (9, 16):
                self.assertEqual(session.run(values(2, (1, 3, 8, width)))[0].shape[3], 16)
            self.assertEqual(network.counters["compiled"], 1)
            with self.assertRaisesRegex(tessera.Error, "dimension 3 is 33, the largest bucket has 32"):
                session.run(values(2, (1, 3, 8, 33)))

    def test_one_model_takes_arrays_of_many_shapes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "open.onnx")
            models.write(path, (1, 3, -1, -1), [(4, 1)])
            ranges = {"x": [(1, 1), (3, 3), (1, None), (1, 32)]}
            for compiled, loaded in ((2, 0), (0, 2)):  # the second one finds the packages of the first
                network = tessera.DynamicNetwork(path, ranges=ranges, cache_folder=folder + "/kept")
                self.assertEqual(network.inputs, [("x", "float32", [1, 3, -1, -1])])
                for device in ("host", "sim"):
                    session = tessera.DynamicSession(network, device)
                    for shape in ((1, 3, 8, 8), (1, 3, 5, 30), (1, 3, 8, 8)):
                        array = values(2, shape)
                        found = session.run(array)
                        fixed = tessera.Network(path, shapes={"x": shape})
                        expected = tessera.Session(fixed, device).run(array)
                        numpy.testing.assert_array_equal(found["y"], expected["y"])
                        self.assertEqual(found.cycles, expected.cycles)
                        numpy.testing.assert_array_equal(session.run({"x": array})[0], expected[0])
                counters = network.counters
                self.assertEqual((counters["compiled"], counters["loaded"]), (compiled, loaded))
                with self.assertRaisesRegex(tessera.Error, "dimension 3 is 33"):
                    session.run(values(2, (1, 3, 8, 33)))
                with self.assertRaisesRegex(tessera.Error, "given 0 inputs"):
                    session.run()
                self.assertEqual(network.deciding_inputs, [])

    def test_one_stream_takes_arrays_of_many_shapes_and_a_failure_is_of_its_job_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "open.onnx")
            models.write(path, (1, 3, -1, -1), [(4, 3)])
            network = tessera.DynamicNetwork(path)
            session = tessera.DynamicSession(network, "host")
            runtime = tessera.Runtime([tessera.Device("host")])
            pipeline = tessera.DynamicPipeline(runtime, network, pipelines_max=2)
            stream = pipeline.stream()
            order = []
            shapes = [(1, 3, 8, 8), (1, 3, 5, 30), (1, 3, 8, 8), (1, 3, 9, 4)]
            jobs = [stream.submit(values(2, shape)) for shape in shapes]
            for job, shape in zip(jobs, shapes):
                result = job.wait()
                numpy.testing.assert_array_equal(result["y"], session.run(values(2, shape))["y"])
            for shape in shapes:
                stream.submit(values(2, shape), callback=lambda result, error: order.append(result["y"].shape[2:]))
            stream.wait_until_done()
            pipeline.wait_until_done()
            self.assertEqual(order, [session.run(values(2, shape))["y"].shape[2:] for shape in shapes])
            status = pipeline.status()
            self.assertEqual((status["submitted"], status["waiting"], status["ran_in_parts"]), (8, 0, 0))
            with self.assertRaisesRegex(tessera.Error, "1x4x8x8"):
                stream.submit(values(2, (1, 4, 8, 8)))


class Arrays(unittest.TestCase):
    def setUp(self):
        self.session = tessera.Session(tessera.Network(RELU), "host", threads=1)

    def test_arrays_of_any_layout_are_read_as_they_are_meant(self):
        for array in (values(1, (5, 4, 3)).T, values(1, (3, 8, 5))[:, ::2]):
            self.assertFalse(array.flags.c_contiguous)
            numpy.testing.assert_array_equal(self.session.run(array)[0], positive(array))

    def test_an_output_is_the_memory_that_the_library_wrote(self):
        result = self.session.run(values())
        output = result[0]
        self.assertIs(result.outputs[0], output)
        self.assertFalse(output.flags.owndata)
        self.assertTrue(output.flags.writeable)
        kept = output.copy()
        del result
        gc.collect()
        self.session.run(values(2))
        numpy.testing.assert_array_equal(output, kept)

    def test_an_input_may_be_changed_as_soon_as_it_is_submitted(self):
        stream = tessera.Runtime([tessera.Device("sim")]).pipeline(tessera.Network(RELU)).stream()
        array = values()
        expected = positive(array)
        job = stream.submit(array)
        array[:] = 7
        numpy.testing.assert_array_equal(job.wait()[0], expected)

    def test_results_are_named_and_counted(self):
        result = self.session.run({"x": values()})
        self.assertEqual((len(result), result.names), (1, ["y"]))
        self.assertIs(result["y"], result[-1])
        self.assertEqual([array.shape for array in result], [(3, 4, 5)])
        with self.assertRaises(KeyError):
            result["z"]
        with self.assertRaises(IndexError):
            result[1]

    def test_values_out_of_range_are_noted_and_made_wide(self):
        loud = numpy.full((3, 4, 5), 1e5, numpy.float32)
        note, = self.session.run(loud).value_notes
        self.assertEqual((note["trouble"], note["format"]), ("saturated", "f16"))
        self.assertIn("65504", note["text"])
        self.assertEqual(self.session.run(values()).value_notes, [])
        formats = tessera.choose_formats(RELU, [loud, {"x": loud}])
        self.assertIn("x", formats["wide"])
        wide = tessera.Session(tessera.load(RELU, layer_formats=formats))
        self.assertEqual(wide.run(loud).value_notes, [])
        chosen = tessera.choose_formats(RELU, [values()], 0.9)
        self.assertGreaterEqual(chosen["cosine"], 0.9)
        with self.assertRaisesRegex(tessera.Error, "allowed 2 to 15"):
            tessera.load(RELU, layer_formats={"mantissa_bits": {"a": 16}})

    def test_wrong_inputs_are_named(self):
        for arguments, message in (
                ((), "given 0 inputs; the model has 1"),
                (({"z": values()},), "input 'x' is missing"),
                (("text",), "input 'x' has the dtype <U4, which no tensor has; needed: float32"),
                ((values().astype(">f4"),),
                 "input 'x' has the dtype >f4, which no tensor has; needed: float32")):
            with self.assertRaises(tessera.Error) as caught:
                self.session.run(*arguments)
            self.assertEqual(str(caught.exception), message)
            self.assertEqual(caught.exception.code, "invalid argument")
        with self.assertRaises(tessera.Error) as caught:
            self.session.run(values().astype(numpy.float64))
        self.assertIn("f64", str(caught.exception))


class Tasks(unittest.TestCase):
    def setUp(self):
        self.network = tessera.Network(RELU)
        self.runtime = tessera.Runtime(
            [tessera.Device("host", name="fast", kernels=2, threads=2),
             tessera.Device("sim", name="slow")])
        self.pipeline = self.runtime.pipeline(self.network, jobs_max=8)

    def test_results_come_in_order_with_what_they_cost(self):
        stream = self.pipeline.stream()
        arrays = [values(seed) for seed in range(40)]
        jobs = [stream.submit(array) for array in arrays]
        for i, (job, array) in enumerate(zip(jobs, arrays)):
            result = job.wait()
            self.assertTrue(job.done())
            self.assertEqual(result.sequence, i)
            self.assertEqual(result[0].tobytes(), positive(array).tobytes())
            self.assertEqual(result.cycles > 0, result.device == "slow")
            self.assertGreater(result.seconds, result.kernel_seconds)
        self.assertEqual(len({job.id for job in jobs}), 40)
        with self.assertRaises(tessera.Error):
            jobs[0].wait()
        self.pipeline.wait_until_done()
        status = self.pipeline.status()
        self.assertEqual((status["submitted"], status["succeeded"], status["in_flight"]),
                         (40, 40, 0))
        self.assertEqual([stage["name"] for stage in status["stages"]],
                         ["pre", "execute", "post"])
        self.assertEqual(sum(device["runs"] for device in self.runtime.devices()), 40)

    def test_wait_any_names_one_that_is_done(self):
        stream = self.pipeline.stream()
        jobs = [stream.submit(values(seed)) for seed in range(3)]
        first = tessera.wait_any(jobs)
        self.assertTrue(jobs[first].done())
        self.assertIsNone(tessera.wait_any([]))

    def test_a_callback_gets_the_result_or_the_error(self):
        seen = []
        stream = self.pipeline.stream()
        stream.submit(values(), callback=lambda *outcome: seen.append(outcome))
        stream.submit(values(), deadline=0.0, callback=lambda *outcome: seen.append(outcome))
        stream.wait_until_done()
        # The task that is late does not wait for its turn.
        (result, none), (nothing, error) = sorted(seen, key=lambda outcome: outcome[0] is None)
        self.assertIsNone(none)
        self.assertIsNone(nothing)
        numpy.testing.assert_array_equal(result[0], positive(values()))
        self.assertIsInstance(error, tessera.Error)
        self.assertEqual(error.failure, "deadline")

    def test_a_callback_is_let_go_of(self):
        class Callback:
            def __call__(self, result, error):
                pass

        callback = Callback()
        gone = weakref.ref(callback)
        stream = self.pipeline.stream()
        job = stream.submit(values(), callback=callback)
        stream.wait_until_done()
        self.pipeline.wait_until_done()
        del callback, job, stream
        self.pipeline = self.runtime = None
        gc.collect()
        self.assertIsNone(gone())

    def test_a_task_fails_with_its_stage_and_its_reason(self):
        stream = self.pipeline.stream()
        with self.assertRaises(tessera.Error) as caught:
            stages = [tessera.Stage("reshape", lambda task: setattr(task, "runs", [[values(1, (3, 4))]]))]
            stages += tessera.default_stages(self.runtime.load(self.network))
            self.runtime.pipeline(stages).stream().submit().wait()
        self.assertEqual(caught.exception.failure, "error")
        self.assertEqual(caught.exception.stage, "pre")
        self.assertEqual(caught.exception.code, "invalid argument")
        with self.assertRaises(tessera.Error) as caught:
            stream.submit(values(), deadline=0.0).wait()
        self.assertEqual(caught.exception.failure, "deadline")

    def test_a_slow_task_is_waited_for_so_long_and_cancelled(self):
        # At this pace a run takes half a second.
        runtime = tessera.Runtime([tessera.Device("sim", pace=1e-6)])
        stream = runtime.pipeline(self.network, jobs_max=1, hint="latency").stream()
        job = stream.submit(values())
        with self.assertRaises(TimeoutError):
            job.wait(timeout=0)
        with self.assertRaises(tessera.Error) as caught:
            stream.submit(values(), wait=False)
        self.assertEqual(caught.exception.code, "unavailable")
        job.cancel()
        with self.assertRaises(tessera.Error) as caught:
            job.wait()
        self.assertEqual(caught.exception.failure, "cancelled")

    def test_a_callback_cannot_wait_for_room_in_its_own_pipeline(self):
        stream = self.runtime.pipeline(self.network, jobs_max=1).stream()
        told = []

        def callback(result, error):
            stream.submit(values())  # in flight until this is over: its turn comes then
            with self.assertRaises(tessera.Error) as caught:
                stream.submit(values())
            told.append(str(caught.exception))
        stream.submit(values(), callback=callback)
        stream.wait_until_done()
        self.assertIn("a thread of the pipeline cannot wait for room", told[0])

    def test_stages_change_while_tasks_flow(self):
        stream = self.pipeline.stream()
        jobs = [stream.submit(values(seed)) for seed in range(4)]
        self.pipeline.set_threads("post", 3)
        self.pipeline.set_kernels("execute", 1)
        for job in jobs:
            job.wait()
        stages = {stage["name"]: stage for stage in self.pipeline.status()["stages"]}
        self.assertEqual((stages["post"]["threads"], stages["execute"]["kernels"]), (3, 1))
        with self.assertRaises(tessera.Error) as caught:
            self.pipeline.set_threads("nowhere", 1)
        self.assertIn("pre, execute, post", str(caught.exception))

    def test_lock_step_comparison_and_traces(self):
        pipeline = self.runtime.pipeline(self.runtime.load(self.network), handover="lock-step",
                                         hint="latency", debug="both")
        stream = pipeline.stream()
        for job in [stream.submit(values(seed)) for seed in range(4)]:
            job.wait()
        status = pipeline.status()
        self.assertEqual((status["compared"], status["mismatches"]), (4, 0))
        with tempfile.TemporaryDirectory() as folder:
            self.runtime.write_trace(f"{folder}/trace.json")
            self.assertGreater(os.path.getsize(f"{folder}/trace.json"), 100)
        self.assertIn("tessera", self.runtime.prometheus())
        for words, message in (({"handover": "x"}, "'free-flow', 'lock-step'"),
                               ({"hint": "x"}, "'throughput', 'latency'")):
            with self.assertRaises(tessera.Error) as caught:
                self.runtime.pipeline(self.network, **words)
            self.assertIn(message, str(caught.exception))

    def test_models_and_devices_that_are_not_there_are_named(self):
        with self.assertRaises(tessera.Error) as caught:
            tessera.Network("/nowhere/x.onnx")
        self.assertIn("/nowhere/x.onnx", str(caught.exception))
        self.assertEqual((caught.exception.failure, caught.exception.stage), ("none", ""))
        with self.assertRaises(tessera.Error):
            tessera.Runtime(["gpu"])
        with self.assertRaises(tessera.Error) as caught:
            self.runtime.load(self.network, devices=["fast", "nowhere"])
        self.assertIn("nowhere", str(caught.exception))

    def test_a_package_is_a_network(self):
        with tempfile.TemporaryDirectory() as folder:
            self.network.save_package(f"{folder}/relu.tpkg")
            loaded = tessera.Network(f"{folder}/relu.tpkg")
        self.assertEqual(loaded.inputs, [("x", "float32", (3, 4, 5))])
        self.assertEqual(loaded.outputs, [("y", "float32", (3, 4, 5))])
        self.assertEqual(loaded.nodes_on_host, 0)


class Lock(unittest.TestCase):
    """The interpreter's lock is free while the library runs and waits."""

    def setUp(self):
        # A thread that holds the lock is never asked to give it up: other threads run only
        # because the holder released it.
        self.interval = sys.getswitchinterval()
        sys.setswitchinterval(1e6)
        self.counter = 0
        self.stop = False
        self.counting = threading.Thread(target=self.count)
        self.counting.start()

    def tearDown(self):
        self.stop = True
        sys.setswitchinterval(self.interval)
        self.counting.join()

    def count(self):
        while not self.stop:
            self.counter += 1
            time.sleep(0)

    def assert_counts_during(self, call):
        before = self.counter
        for _ in range(2000):
            call()
            if self.counter != before:
                return
        self.fail("another thread stood still during 2000 calls")

    def test_another_thread_runs_during_a_run(self):
        session = tessera.Session(tessera.Network(RELU), "sim")
        array = values()
        self.assert_counts_during(lambda: session.run(array))

    def test_another_thread_runs_during_a_wait(self):
        stream = tessera.Runtime(["sim"]).pipeline(tessera.Network(RELU)).stream()
        array = values()
        self.assert_counts_during(lambda: stream.submit(array).wait())

    def test_a_callback_runs_while_the_main_thread_waits(self):
        seen = []
        stream = tessera.Runtime([tessera.Device("host")]).pipeline(tessera.Network(RELU)).stream()
        stream.submit(values(), callback=lambda result, error: seen.append(result))
        stream.wait_until_done()  # would wait for ever
        self.assertEqual(len(seen), 1)

    def test_letting_go_of_a_pipeline_waits_for_callbacks_without_the_lock(self):
        seen = []
        pipeline = tessera.Runtime([tessera.Device("host")]).pipeline(tessera.Network(RELU))
        stream = pipeline.stream()
        for _ in range(5):
            stream.submit(values(), callback=lambda result, error: seen.append(result))
        del pipeline, stream  # would wait for ever
        gc.collect()
        self.assertEqual(len(seen), 5)

    def test_threads_may_share_a_session(self):
        session = tessera.Session(tessera.Network(RELU), "host", threads=1)
        wrong = []

        def work(seed):
            array = values(seed)
            for _ in range(50):
                if session.run(array)[0].tobytes() != positive(array).tobytes():
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Types(unittest.TestCase):
    """What the .pyi file declares is there, and what is there is declared."""

    def test_declarations_are_what_the_module_has(self):
        folder = pathlib.Path(tessera.__file__).parent
        self.assertTrue((folder / "py.typed").is_file())
        declared, typed_dicts = {}, set()
        for node in ast.parse((folder / "__init__.pyi").read_text()).body:
            if isinstance(node, ast.ClassDef):
                declared[node.name] = {
                    entry.target.id if isinstance(entry, ast.AnnAssign) else entry.name
                    for entry in node.body}
                bases = {base.id for base in node.bases}
                if bases & {"TypedDict", *typed_dicts}:
                    typed_dicts.add(node.name)
            elif isinstance(node, ast.FunctionDef):
                declared[node.name] = set()
        public = [name for name in tessera.__all__ if name != "__version__"]
        self.assertEqual(set(public), set(declared) - typed_dicts)
        special = {"__init__", "__len__", "__iter__", "__getitem__", "__dlpack__", "__dlpack_device__"}
        for name in public:
            thing = getattr(tessera, name)
            if not isinstance(thing, type) or issubclass(thing, Exception):
                continue
            classes = [base for base in thing.__mro__ if base.__module__.startswith("tessera")]
            found = {entry for base in classes for entry in vars(base)
                     if not entry.startswith("_") or entry in special}
            if "__init__" not in declared[name]:
                found.discard("__init__")
            self.assertEqual(found, declared[name] - {"__new__"}, name)


    def test_dictionaries_have_the_keys_that_are_declared(self):
        declared = {}
        folder = pathlib.Path(tessera.__file__).parent
        for node in ast.parse((folder / "__init__.pyi").read_text()).body:
            if isinstance(node, ast.ClassDef):
                declared[node.name] = [entry.target.id for entry in node.body
                                       if isinstance(entry, ast.AnnAssign)]
        network = tessera.Network(RELU)
        runtime = tessera.Runtime([tessera.Device("host")])
        pipeline = runtime.pipeline(network)
        result = pipeline.stream().submit(values()).wait()
        layers = runtime.memory("host0").load(network)
        for name, found in (("PipelineStatus", pipeline.status()), ("TaskTimes", result.times),
                            ("StageStatus", pipeline.status()["stages"][0]),
                            ("DeviceStatus", runtime.devices()[0]),
                            ("Layer", layers.descriptions[0])):
            self.assertEqual(sorted(found), sorted(declared[name]), name)


if __name__ == "__main__":
    unittest.main()
