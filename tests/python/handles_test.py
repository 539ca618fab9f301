"""What handles say where they cannot work: half-made, copied, in a process that was forked off; and
callbacks that raise. PYTHONPATH names the package."""
import copy
import inspect
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import unittest

try:
    import numpy
except ModuleNotFoundError:
    print("skipped: NumPy is not installed")
    sys.exit(77)

import tessera
from tessera import _native

RELU = "/usr/share/libonnx-testdata/data/node/test_relu/model.onnx"  # x f32 [3, 4, 5] -> y
CLASSES = {name: value for name, value in vars(_native).items()
           if inspect.isclass(value) and not issubclass(value, BaseException)}
FUNCTIONS = [value for name, value in vars(_native).items()
             if not inspect.isclass(value) and callable(value)]
FORKED = "this process was forked after the {} was opened; open it again in the child"


def values():
    return numpy.ones((3, 4, 5), numpy.float32)


class HalfMade(unittest.TestCase):
    """Objects whose __init__ was not called. A crash ends the test."""

    def test_all_classes_are_looked_at(self):
        self.assertLessEqual({"Network", "Session", "SharedSession", "Runtime", "Model", "Stage", "Pipeline", "Stream",
                              "Job", "Result", "Task", "Device", "Memory", "Block", "Layers",
                              "Operation", "LiveView"}, set(CLASSES))

    def test_every_attribute_is_an_error(self):
        own = ("__del__", "__new__", "__init__")
        for name, kind in CLASSES.items():
            for attribute in dir(kind):
                if attribute in own or attribute in dir(object):
                    continue
                half = kind.__new__(kind)
                for arguments in ((), (1,), (half,), ("x",), ([half],), ("x", 1), (half, half)):
                    if isinstance(inspect.getattr_static(kind, attribute), staticmethod):
                        self.call(lambda: getattr(kind, attribute)(*arguments))
                        continue
                    with self.subTest(of=name, attribute=attribute, arguments=len(arguments)):
                        with self.assertRaises((TypeError, RuntimeError, tessera.Error)):
                            found = getattr(half, attribute)
                            found(*arguments)

    def call(self, function):
        try:
            function()
        except (TypeError, RuntimeError, ValueError, tessera.Error):
            pass

    def test_as_an_argument_it_is_an_error(self):
        halves = [kind.__new__(kind) for kind in CLASSES.values()]
        for function in FUNCTIONS + list(CLASSES.values()):
            for half in halves:
                for arguments in ((half,), ([half],), (half, half), (half, 1, 1), ([half], half)):
                    self.call(lambda: function(*arguments))
        runtime = tessera.Runtime()
        network = tessera.Network(RELU)
        stream = runtime.pipeline(network).stream()
        for half in halves:
            for call in (runtime.load, runtime.pipeline, runtime.live_view, runtime.memory,
                         stream.submit, stream.submit_runs, stream.submit_batch):
                for arguments in ((half,), ([half],)):
                    self.call(lambda: call(*arguments))

    def test_the_error_says_what_was_not_done(self):
        with self.assertRaisesRegex(TypeError, r"^tessera\.(_native\.)?Session\.__init__\(\) has not "
                                               r"been called for this object$"):
            tessera.Session.__new__(tessera.Session).run(values())
        with self.assertRaisesRegex(TypeError, r"Network\.__init__\(\) has not been called"):
            tessera.Session(tessera.Network.__new__(tessera.Network))

    def test_a_subclass_that_forgets_super_or_is_too_early_is_an_error(self):
        class Forgets(tessera.Session):
            def __init__(self):
                pass

        class TooEarly(tessera.Session):
            def __init__(self, network):
                self.run(values())
                super().__init__(network)

        class Right(tessera.Session):
            def __init__(self, network):
                super().__init__(network, "host", threads=1)
                self.ran = self.run(values())[0]

        network = tessera.Network(RELU)
        with self.assertRaisesRegex(TypeError, "__init__"):
            Forgets()
        with self.assertRaisesRegex(TypeError, "has not been called"):
            TooEarly(network)
        self.assertEqual(Right(network).ran.shape, (3, 4, 5))


class Copies(unittest.TestCase):
    def test_handles_are_neither_copied_nor_pickled(self):
        network = tessera.Network(RELU)
        runtime = tessera.Runtime()
        model = runtime.load(network)
        pipeline = runtime.pipeline(model)
        stream = pipeline.stream()
        job = stream.submit(values())
        memory = runtime.memory("host0")
        made = [network, tessera.Session(network), runtime, model, pipeline, stream, job, job.wait(),
                memory, memory.allocate(8), memory.load(network), tessera.Device(),
                tessera.Operation.relu(1, 1), runtime.live_view(),
                tessera.Stage("s", lambda task: None)]
        for thing in made:
            name = type(thing).__name__
            text = f"a tessera.{name} cannot be copied or pickled; load or open another one"
            ways = [copy.copy, copy.deepcopy] + [
                lambda value, p=protocol: pickle.dumps(value, p)
                for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
            for way in ways:
                with self.subTest(of=name):
                    with self.assertRaises(TypeError) as raised:
                        way(thing)
                    self.assertEqual(str(raised.exception), text)

        class Mine(tessera.Network):
            pass
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "cannot be copied or pickled"):
                way(Mine(RELU))


def tell(connection, work):
    try:
        work()
        connection.send("no error")
    except BaseException as error:
        connection.send(f"{type(error).__name__}: {error}")


class Forks(unittest.TestCase):
    """A child that hangs is ended after a minute, and fails."""

    def in_child(self, work):
        here, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        child = context.Process(target=tell, args=(there, work))
        child.start()
        child.join(60)
        if child.exitcode is None:
            child.kill()
        self.assertEqual(child.exitcode, 0)
        self.assertTrue(here.poll(1))
        return here.recv()

    def setUp(self):
        self.network = tessera.Network(RELU)

    def test_a_session_of_the_parent_is_an_error_and_ones_own_is_right(self):
        for device in ("host", "sim", "ref"):
            session = tessera.Session(self.network, device, threads=2)
            session.run(values())
            self.assertEqual(self.in_child(lambda: session.run(values())),
                             "Error: " + FORKED.format("session"))

            def own():
                opened = tessera.Session(self.network, device, threads=2)
                self.assertTrue((opened.run(values())[0] == values()).all())
            self.assertEqual(self.in_child(own), "no error")
            session.run(values())

    def test_a_session_that_another_thread_uses_is_an_error(self):
        session = tessera.Session(self.network, "sim")
        stop = threading.Event()

        def work():
            while not stop.is_set():
                session.run(values())
        busy = threading.Thread(target=work)
        busy.start()
        try:
            for _ in range(5):
                self.assertEqual(self.in_child(lambda: session.run(values())),
                                 "Error: " + FORKED.format("session"))
        finally:
            stop.set()
            busy.join()

    def test_every_call_on_a_runtime_of_the_parent_is_an_error(self):
        runtime = tessera.Runtime(["host", "sim"])
        pipeline = runtime.pipeline(self.network)
        stream = pipeline.stream()
        job = stream.submit(values())
        memory = runtime.memory("host0")
        block = memory.allocate(8)
        calls = {
            "runtime": [lambda: runtime.load(self.network), lambda: runtime.pipeline(self.network),
                        runtime.operations, lambda: runtime.memory("host0"), runtime.devices,
                        lambda: runtime.write_trace("/nowhere"), runtime.prometheus,
                        lambda: runtime.write_events("/nowhere"), runtime.live_view],
            "pipeline": [lambda: stream.submit(values()), lambda: stream.submit_batch([[values()]]),
                         lambda: stream.submit(values(), wait=False), stream.wait_until_done,
                         pipeline.status, pipeline.wait_until_done,
                         lambda: pipeline.set_threads("pre", 2), lambda: pipeline.set_tuning(True),
                         lambda: pipeline.set_debug("host"), lambda: pipeline.stream().submit(values())],
            "task's pipeline": [job.wait],
            "memory": [lambda: memory.allocate(8), block.wrote, block.fetch,
                       lambda: memory.load(self.network)]}

        def all_of_them():
            for what, list_of_calls in calls.items():
                for i, call in enumerate(list_of_calls):
                    with self.assertRaises(tessera.Error, msg=f"{what} {i}") as raised:
                        call()
                    self.assertEqual(str(raised.exception), FORKED.format(what), i)
                    self.assertEqual(raised.exception.code, "unavailable")
            job.cancel()
            self.assertEqual(tessera.wait_any([job]), 0)
        self.assertEqual(self.in_child(all_of_them), "no error")
        self.assertTrue((job.wait()[0] == values()).all())

    def test_a_cluster_of_the_parent_is_an_error(self):
        mine = tessera.Cluster("cluster:127.0.0.1:1?patience=0")
        self.assertEqual(self.in_child(lambda: mine.allocations),
                         "Error: " + FORKED.format("connection to a cluster"))

    def test_a_child_that_ends_as_python_ends_does_not_hang(self):
        ran = subprocess.run([sys.executable, "-c", PROGRAM_THAT_FORKS], timeout=120)
        self.assertEqual(ran.returncode, 3)


PROGRAM_THAT_FORKS = """
import os, signal, sys, threading
import tessera
runtime = tessera.Runtime()
entered, stop = threading.Event(), threading.Event()
def hold(task):
    entered.set()
    stop.wait(60)
stream = runtime.pipeline([tessera.Stage("hold", hold)]).stream()
job = stream.submit()
entered.wait(60)  # a thread of the library is in Python
child = os.fork()
if child == 0:
    signal.alarm(60)
    sys.exit(3)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
stop.set()
job.wait()
sys.exit(status)
"""


class Raises(unittest.TestCase):
    def setUp(self):
        self.seen = []
        self.hook = sys.unraisablehook
        sys.unraisablehook = lambda what: self.seen.append(what.exc_value)
        self.pipeline = tessera.Runtime().pipeline(tessera.Network(RELU))

    def tearDown(self):
        sys.unraisablehook = self.hook

    def test_what_a_callback_raises_is_the_error_of_its_job(self):
        def callback(result, error):
            raise ValueError("no room on the desk")
        job = self.pipeline.stream().submit(values(), callback=callback)
        with self.assertRaises(tessera.Error) as raised:
            job.wait(60)
        self.assertRegex(str(raised.exception), r"^the task's callback threw: ValueError: no room on "
                                                r"the desk \(handles_test\.py:\d+, in callback\)$")
        self.assertIsInstance(raised.exception.__cause__, ValueError)
        self.assertEqual([str(error) for error in self.seen], ["no room on the desk"])
        status = self.pipeline.status()
        self.assertEqual(status["callbacks_threw"], 1)
        self.assertEqual(status["callback_error"], str(raised.exception))
        self.pipeline.stream().submit(values()).wait(60)

    def test_arguments_of_another_kind_are_named(self):
        stream = self.pipeline.stream()
        for argument, text in (
                ({"skip": "pre"}, "submit: skip is 'pre'; needed: a list of stages"),
                ({"skip": [1]}, "submit: skip is [1]; needed: a list of stages"),
                ({"priority": "x"},
                 "submit: priority is 'x'; needed: a whole number from -7 to 7, or None"),
                ({"priority": 2 ** 40},
                 "submit: priority is 1099511627776; needed: a whole number from -7 to 7, or None"),
                ({"deadline": "x"}, "submit: deadline is 'x'; needed: seconds from now, or None"),
                ({"wait": "no"}, "submit: wait is 'no'; needed: True or False")):
            with self.assertRaises(TypeError) as raised:
                stream.submit(values(), **argument)
            self.assertEqual(str(raised.exception), text)
        with self.assertRaises(ValueError):
            stream.submit(values(), deadline=float("nan"))

    def test_texts_that_are_no_utf_8_are_in_the_error(self):
        with self.assertRaises(tessera.Error) as raised:
            tessera.load(b'firmware 1\narch "a\xdab"\n')
        self.assertIn("a\\xdab", str(raised.exception))
        with self.assertRaises(tessera.Error) as raised:
            tessera.Network(os.fsdecode(b"no\xff\xfe.onnx"))
        self.assertIn("no\\xff\\xfe.onnx", str(raised.exception))

    def test_tasks_without_inputs_or_runs_are_refused(self):
        stream = self.pipeline.stream()
        for call, text in (
                (lambda: stream.submit(), "given 0 inputs; the model has 1"),
                (lambda: stream.submit({}), "given 0 inputs; the model has 1"),
                (lambda: stream.submit_runs([]),
                 "a task without runs; give the model's inputs at least once"),
                (lambda: stream.submit_runs([[]]), "0 inputs given, the model has 1"),
                (lambda: stream.submit_batch([[]]), "0 inputs given, the model has 1"),
                (lambda: stream.submit(numpy.ones((2, 2), numpy.float32)),
                 "input 'x': found f32 [2x2], the model takes f32 [3x4x5]")):
            with self.assertRaises(tessera.Error) as raised:
                call()
            self.assertEqual(str(raised.exception), text)
        self.assertEqual(self.pipeline.status()["submitted"], 0)


if __name__ == "__main__":
    unittest.main()
