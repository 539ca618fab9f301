"""Pipelines of the application's own stages: results, errors, lifetimes."""
import gc
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
import reading
import tessera

HERE = pathlib.Path(__file__).parent
RELU = "/usr/share/libonnx-testdata/data/node/test_relu/model.onnx"  # x f32 [3, 4, 5] -> y


def values(seed=1, shape=(3, 4, 5)):
    numbers = numpy.random.default_rng(seed).standard_normal(shape)
    return numbers.astype(numpy.float16).astype(numpy.float32)


class Folder(unittest.TestCase):
    """A folder with two models and some pictures."""

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = cls.place.name
        cls.detector = models.write(f"{cls.folder}/detector.onnx", (1, 3, 32, 96), [(4, 1), (1, 1)])
        cls.recogniser = models.write(f"{cls.folder}/recogniser.onnx", (1, 1, 8, 96),
                                      [(6, 2), (7, 2)], seed=2)
        cls.pictures = []
        for seed in range(6):
            levels = numpy.random.default_rng(seed).integers(0, 256, (32, 96, 3), numpy.uint8)
            cls.pictures.append(f"{cls.folder}/page{seed}.png")
            tessera.write_png(cls.pictures[-1], levels)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def run_tool(self, model, array):
        """What the command line makes of it, which calls the C++ interface."""
        with tempfile.TemporaryDirectory() as folder:
            numpy.save(f"{folder}/in.npy", array)
            subprocess.run([os.environ["TESSERA_TOOL"], "run", model, "--device", "ref",
                            "--input", f"x={folder}/in.npy", "--output", folder],
                           check=True, capture_output=True)
            return numpy.load(f"{folder}/y.npy")


class Reading(Folder):
    def test_a_function_between_two_models_has_the_bits_of_cpp(self):
        runtime, pipeline = reading.open_pipeline(self.detector, self.recogniser)
        network = tessera.Network(self.detector)
        stream = pipeline.stream()
        # Without the last stage, so that the recogniser's bits come out.
        jobs = [stream.submit(payload=reading.Page(path), skip=["text"]) for path in self.pictures]
        lines = 0
        for job, path in zip(jobs, self.pictures):
            result = job.wait()
            pixels = tessera.read_picture(path)
            scores = self.run_tool(self.detector, tessera.picture_input(pixels, network))
            grey = pixels.mean(axis=2, dtype=numpy.float32) / 255
            bands = reading.bands_of(scores)
            self.assertEqual(len(result.runs), len(bands))
            for [found], band in zip(result.runs, bands):
                line = numpy.split(grey, reading.BANDS)[band][None, None]
                self.assertEqual(found.tobytes(), self.run_tool(self.recogniser, line).tobytes())
            lines += len(bands)
        self.assertTrue(0 < lines < 4 * len(self.pictures), lines)
        runs = {device["name"]: device["runs"] for device in runtime.devices()}
        self.assertEqual(runs, {"finder": len(self.pictures), "reader": lines})

    def test_the_program_reads_a_folder_and_names_what_is_no_picture(self):
        broken = f"{self.folder}/broken.png"
        pathlib.Path(broken).write_text("no picture")
        words = [sys.executable, str(HERE / "reading.py"), self.detector, self.recogniser]
        good = subprocess.run([*words, *self.pictures], capture_output=True, text=True)
        self.assertEqual((good.returncode, len(good.stdout.splitlines())), (0, 6), good.stderr)
        detect = tessera.Session(tessera.Network(self.detector))
        recognise = tessera.Session(tessera.Network(self.recogniser))
        for text, path in zip(good.stdout.splitlines(), self.pictures):
            pixels = tessera.read_picture(path)
            scores = detect.run(tessera.picture_input(pixels, tessera.Network(self.detector)))[0]
            grey = pixels.mean(axis=2, dtype=numpy.float32) / 255
            lines = [reading.text_of(
                recognise.run(numpy.split(grey, reading.BANDS)[band][None, None])[0])
                for band in reading.bands_of(scores)]
            self.assertEqual(text, " ".join([path, *(f"[{line}]" for line in lines)]))
        bad = subprocess.run([*words, self.pictures[0], broken], capture_output=True, text=True)
        self.assertEqual(bad.returncode, 1)
        self.assertIn("(stage decode)", bad.stdout.splitlines()[1])
        self.assertEqual(bad.stdout.splitlines()[0], good.stdout.splitlines()[0])


class Stages(unittest.TestCase):
    def setUp(self):
        self.runtime = tessera.Runtime(["host"])
        self.model = self.runtime.load(tessera.Network(RELU))

    def open(self, *stages, **options):
        return self.runtime.pipeline(list(stages), **options)

    def test_an_exception_ends_its_own_task_with_its_text(self):
        def check(task):
            if task.sequence % 2:
                raise ValueError(f"nothing on page {task.sequence}")

        stream = self.open(tessera.Stage("check", check)).stream()
        for i, job in enumerate([stream.submit(values()) for _ in range(6)]):
            if i % 2 == 0:
                self.assertEqual(job.wait()[0].tobytes(), values().tobytes())
                continue
            with self.assertRaises(tessera.Error) as caught:
                job.wait()
            error = caught.exception
            self.assertIn(f"ValueError: nothing on page {i} (pipelines_test.py:", str(error))
            self.assertIn("in check)", str(error))
            self.assertEqual((error.failure, error.stage, error.sequence), ("error", "check", i))
            self.assertEqual((error.code, error.task), ("invalid argument", job.id))
            self.assertIsInstance(error.__cause__, ValueError)
            self.assertEqual(error.__cause__.__traceback__.tb_frame.f_code.co_name, "check")

    def test_an_error_of_the_library_keeps_its_code(self):
        def load(task):
            tessera.read_picture("/nowhere.png")

        def exits(task):
            sys.exit(3)

        for stage, text, code in ((load, "/nowhere.png", None), (exits, "SystemExit: 3", None)):
            seen = []
            stream = self.open(tessera.Stage("s", stage)).stream()
            stream.submit(values(), callback=lambda result, error: seen.append(error))
            stream.wait_until_done()
            self.assertIn(text, str(seen[0]))
            self.assertIsNotNone(seen[0].__cause__)

    def test_what_a_stage_leaves_must_be_lists_of_arrays(self):
        def leave(runs):
            def stage(task):
                task.runs = runs
            return stage

        for runs, text in (([values()], "run 0 of the task is a ndarray; needed: a list of arrays"),
                           (7, "TypeError"),
                           ([["text"]], "run 0 of the task, array 0 has the dtype <U4")):
            with self.assertRaises(tessera.Error) as caught:
                self.open(tessera.Stage("s", leave(runs))).stream().submit().wait()
            self.assertIn(text, str(caught.exception))
        # The model behind says what it needs.
        stages = tessera.Stage("s", leave([[values(1, (2, 2))]])), tessera.Stage.pre(self.model)
        with self.assertRaises(tessera.Error) as caught:
            self.open(*stages).stream().submit().wait()
        self.assertEqual(caught.exception.stage, "pre")

    def test_runs_are_changed_in_number_and_in_place(self):
        def double(task):
            [[array]] = task.runs
            array *= 2
            task.runs.append([array + 1])

        stages = [tessera.Stage("double", double), *tessera.default_stages(self.model)]
        stream = self.open(*stages).stream()
        array = values()
        result = stream.submit(array, payload="page").wait()
        self.assertEqual([len(run) for run in result.runs], [1, 1])
        self.assertEqual(result.runs[0][0].tobytes(), numpy.maximum(2 * array, 0).tobytes())
        half = (2 * array + 1).astype(numpy.float16).astype(numpy.float32)
        self.assertEqual(result.runs[1][0].tobytes(), numpy.maximum(half, 0).tobytes())
        self.assertEqual((result.names, result.payload), (["y"], "page"))
        self.assertEqual([name for name, *_ in result.times["stages"]],
                         ["double", "pre", "execute", "post"])
        self.assertGreater(result.times["stages"][0][2], 0)
        with self.assertRaises(tessera.Error) as caught:
            stream.submit({"x": array})
        self.assertIn("begins with a function", str(caught.exception))

    def test_tasks_of_several_runs_batches_and_skipped_stages(self):
        def never(task):
            raise AssertionError

        pipeline = self.open(*tessera.default_stages(self.model), tessera.Stage("never", never))
        stream = pipeline.stream()
        arrays = [values(seed) for seed in range(4)]
        runs = stream.submit_runs([[array] for array in arrays], skip=["never"])
        batch = stream.submit_batch([[array] for array in arrays], skip=["never"], payload=1)
        for [output], job, array in zip(runs.wait().runs, batch, arrays):
            result = job.wait()
            self.assertEqual(output.tobytes(), numpy.maximum(array, 0).tobytes())
            self.assertEqual(result[0].tobytes(), output.tobytes())
            self.assertEqual((result.payload, result.names), (1, []))
        with self.assertRaises(tessera.Error) as caught:
            stream.submit_batch([[arrays[0]], arrays[1]])
        self.assertIn("run 1 is a ndarray", str(caught.exception))
        with self.assertRaises(TypeError):
            stream.submit(arrays[0], skipped=["never"])
        with self.assertRaises(tessera.Error):
            stream.submit(arrays[0], skip=["nowhere"])

    def test_a_task_that_is_kept_has_no_way_back(self):
        kept = []

        def keep(task):
            kept.append(task)
            task.payload = (task.payload, task.stream)

        stream = self.open(tessera.Stage("keep", keep)).stream()
        self.assertEqual(stream.submit(values(), payload="p").wait().payload, ("p", stream.id))
        for change in (lambda: kept[0].runs, lambda: kept[0].payload,
                       lambda: setattr(kept[0], "runs", [])):
            with self.assertRaises(tessera.Error) as caught:
                change()
            self.assertIn("the stage has returned", str(caught.exception))

    def test_stages_run_side_by_side_and_the_lock_is_theirs_only_in_python(self):
        meeting = threading.Barrier(3)  # passed only by three threads at once
        stage = tessera.Stage("meet", lambda task: meeting.wait(timeout=60) and None, threads=3,
                              batch=1)
        pipeline = self.open(stage)
        streams = [pipeline.stream() for _ in range(3)]
        for job in [stream.submit() for stream in streams]:
            job.wait(timeout=60)
        self.assertEqual(pipeline.status()["stages"][0]["kind"], "host")

    def test_wrong_stages_are_named(self):
        with self.assertRaises(tessera.Error) as caught:
            tessera.Stage("s", 7)
        self.assertIn("stage 's'", str(caught.exception))
        for what in (7, [7]):
            with self.assertRaises(tessera.Error) as caught:
                self.runtime.pipeline(what)
            self.assertIn("a list of Stages", str(caught.exception))
        with self.assertRaises(tessera.Error) as caught:
            self.open(*tessera.default_stages(self.model), *tessera.default_stages(self.model))
        self.assertIn("two of this name", str(caught.exception))
        with self.assertRaises(TypeError):
            self.open(tessera.Stage.pre(self.model), debugging="both")
        for words in ({"debug": "x"}, {"debug_every": 0}):
            with self.assertRaises(tessera.Error):
                self.open(tessera.Stage.pre(self.model), **words)


class Orders(unittest.TestCase):
    """The order of results and priorities, behind a stage that holds the first task of all back."""

    def setUp(self):
        self.changed, self.open, self.begun = threading.Condition(), False, []

    def work(self, task):
        with self.changed:
            self.begun.append(task.payload)
            self.changed.notify_all()
            if len(self.begun) == 1:
                self.changed.wait_for(lambda: self.open, timeout=60)

    def wait_for(self, tasks):
        with self.changed:
            self.assertTrue(self.changed.wait_for(lambda: len(self.begun) >= tasks, timeout=60))

    def let_go(self):
        with self.changed:
            self.open = True
            self.changed.notify_all()

    def pipeline(self, threads):
        runtime = tessera.Runtime(["host"])
        return runtime.pipeline([tessera.Stage("work", self.work, threads=threads, batch=1)])

    def five(self, order):
        """A stream with five jobs, the first of which is held back until the others have been there."""
        stream, told = self.pipeline(2).stream(order=order), []
        jobs = []
        for number in range(5):
            jobs.append(stream.submit(payload=number,
                                      callback=lambda result, error: told.append(result.payload)))
            if number == 0:
                self.wait_for(1)
        self.wait_for(5)
        return stream, jobs, told

    def test_results_of_an_ordered_stream_wait_for_those_before(self):
        stream, jobs, told = self.five("submission")
        self.assertFalse(any(job.done() for job in jobs))
        self.let_go()
        stream.wait_until_done()
        self.assertEqual(told, [0, 1, 2, 3, 4])

    def test_results_of_an_unordered_stream_come_as_they_are_done(self):
        stream, jobs, told = self.five("completion")
        for job in jobs[1:]:
            tessera.wait_any([job], timeout=60)
        self.assertFalse(jobs[0].done())
        self.let_go()
        stream.wait_until_done()
        self.assertEqual(told, [1, 2, 3, 4, 0])

    def test_tasks_go_by_their_priority_and_else_by_that_of_their_stream(self):
        pipeline = self.pipeline(1)
        low, high = pipeline.stream(priority=-2), pipeline.stream(order="completion", priority=3)
        low.submit(payload="first")
        self.wait_for(1)
        low.submit(payload="low")
        high.submit(payload="lowest", priority=-7)
        high.submit(payload="high")
        low.submit(payload="highest", priority=7)
        high.submit(payload="high, too")
        self.let_go()
        for stream in (low, high):
            stream.wait_until_done()
        self.assertEqual(self.begun, ["first", "highest", "high", "high, too", "low", "lowest"])

    def test_orders_and_priorities_that_there_are_not_are_refused(self):
        pipeline = self.pipeline(1)
        with self.assertRaises(ValueError):
            pipeline.stream(order="alphabet")
        for submit in (lambda: pipeline.stream(priority=8).submit(),
                       lambda: pipeline.stream().submit(priority=-8)):
            with self.assertRaises((ValueError, tessera.Error)) as caught:
                submit()
            self.assertIn("allowed -7 to 7", str(caught.exception))


class Lifetimes(unittest.TestCase):
    class Reader:
        """As programs are: an object with a pipeline, of which its methods are the stages."""

        def __init__(self, runtime):
            self.seen = 0
            self.stages = [tessera.Stage("look", self.look)]
            self.pipeline = runtime.pipeline(self.stages, tune=True, tuning_log=self.log)
            self.stream = self.pipeline.stream()

        def look(self, task):
            self.seen += 1

        def log(self, text):
            pass

    def test_an_object_whose_methods_are_stages_is_collected(self):
        runtime = tessera.Runtime(["host"])
        for keep in ("pipeline", "stream"):
            reader = self.Reader(runtime)
            delattr(reader, "stream" if keep == "pipeline" else "pipeline")
            stream = reader.stream if keep == "stream" else reader.pipeline.stream()
            stream.submit(values()).wait()
            del stream
            self.assertEqual(reader.seen, 1)
            gone = weakref.ref(reader)
            del reader
            gc.collect()
            self.assertIsNone(gone(), keep)

    def test_a_collected_pipeline_finishes_what_is_inside(self):
        seen = []

        class Holder:
            def work(self, task):
                time.sleep(0.001)
                seen.append(task.sequence)

        holder = Holder()
        holder.pipeline = tessera.Runtime(["host"]).pipeline([tessera.Stage("work", holder.work)])
        stream = holder.pipeline.stream()
        jobs = [stream.submit(callback=lambda result, error: seen.append("called"))
                for _ in range(20)]
        gone = weakref.ref(holder)
        del holder, stream
        while gone() is not None:  # a call that is under way holds its method
            gc.collect()
        self.assertEqual((len(seen), seen.count("called")), (40, 20))
        self.assertTrue(all(job.done() for job in jobs))

    def test_a_function_is_whole_as_long_as_tasks_come_to_it(self):
        # At this pace a run takes half a second: the garbage is found before the function is called.
        runtime = tessera.Runtime([tessera.Device("sim", pace=1e-6)])
        model = runtime.load(tessera.Network(RELU))
        seen = []

        def make():
            class Holder:
                def look(self, task):
                    seen.append((Holder.__name__, len(vars(self))))

            holder = Holder()
            stages = [*tessera.default_stages(model), tessera.Stage("look", holder.look)]
            holder.pipeline = runtime.pipeline(stages)
            holder.stream = holder.pipeline.stream()
            return holder.stream.submit(values())

        job = make()
        gc.collect()
        self.assertTrue(job.done())
        self.assertEqual(seen, [("Holder", 2)])

    def test_an_object_that_is_a_payload_and_has_its_job_is_collected(self):
        class Page:
            pass

        def fail(task):
            raise ValueError("no")

        runtime = tessera.Runtime(["host"])
        for stage, waits in ((lambda task: None, True), (fail, True), (lambda task: None, False)):
            pipeline = runtime.pipeline([tessera.Stage("s", stage)])
            stream = pipeline.stream()
            page = Page()
            page.job = stream.submit(values(), payload=page)
            if waits:
                try:
                    page.job.wait()
                except tessera.Error:
                    pass
            stream.wait_until_done()
            gone = weakref.ref(page)
            if not waits:
                page.job.wait()
            del page
            gc.collect()
            self.assertIsNone(gone())

    def test_the_last_handle_may_go_in_a_stage_and_in_a_callback(self):
        runtime = tessera.Runtime(["host"])
        for in_stage in (True, False):
            held, go, gone = [], threading.Event(), threading.Event()

            class Marker:
                def __call__(self, *arguments):
                    go.wait()
                    held.clear()

                def __del__(self):
                    gone.set()

            marker = Marker()
            stage = marker if in_stage else (lambda task: None)
            pipeline = runtime.pipeline([tessera.Stage("drop", stage)])
            stream = pipeline.stream()
            held += [pipeline, stream]
            job = stream.submit(callback=None if in_stage else marker)
            del pipeline, stream, marker, stage
            go.set()
            if in_stage:
                job.wait(timeout=60)
            self.assertTrue(gone.wait(60), in_stage)

    def test_garbage_is_collected_by_stages_too(self):
        runtime = tessera.Runtime(["host"])

        def litter(task):
            for _ in range(3):
                reader = self.Reader(runtime)
                reader.stream.submit()
                del reader
                gc.collect()

        stream = runtime.pipeline([tessera.Stage("litter", litter, threads=3, batch=1)]).stream()
        for job in [stream.submit() for _ in range(9)]:
            job.wait(timeout=120)


class Exit(unittest.TestCase):
    """What happens when the interpreter ends while the library is at work."""

    def run_program(self, text, **options):
        program = "import os, sys, threading, time\nimport numpy, tessera\n" + text
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=120, **options)
        for word in ("Fatal", "terminate", "Segmentation", "Abort"):
            self.assertNotIn(word, done.stderr)
        return done

    def test_a_stage_that_still_runs_is_waited_for_and_those_behind_it_fail(self):
        done = self.run_program("""
started = threading.Event()
def slow(task):
    started.set()
    time.sleep(0.3)
    print("stage", task.sequence, flush=True)
pipeline = tessera.Runtime(["host"]).pipeline([tessera.Stage("slow", slow, batch=1)])
stream = pipeline.stream()
jobs = [stream.submit(callback=lambda *outcome: print("called", flush=True)) for _ in range(5)]
started.wait()
print("end", flush=True)
""")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "end\nstage 0\n", ""))

    def test_a_pipeline_that_nobody_can_let_go_of_does_not_hold_the_end_up(self):
        done = self.run_program("""
class Reader:
    def __init__(self):
        self.pipeline = tessera.Runtime(["host"]).pipeline([tessera.Stage("look", self.look)])
        self.job = self.pipeline.stream().submit(payload=self)
    def look(self, task):
        time.sleep(0.05)
reader = Reader()
keep = sys.modules["tessera"].keep = reader
""")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_daemon_thread_that_waits_does_not_end_the_process(self):
        done = self.run_program("""
network = tessera.Network(%r)
pipeline = tessera.Runtime([tessera.Device("sim", pace=1e-6)]).pipeline(network)
job = pipeline.stream().submit(numpy.zeros((3, 4, 5), "f"))
thread = threading.Thread(target=job.wait, daemon=True)
thread.start()
time.sleep(0.05)
""" % RELU)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_callbacks_that_come_too_late_are_not_called(self):
        done = self.run_program("""
network = tessera.Network(%r)
stream = tessera.Runtime([tessera.Device("sim", pace=1e-6)]).pipeline(network).stream()
for _ in range(2):
    stream.submit(numpy.zeros((3, 4, 5), "f"), callback=lambda *outcome: print("late"))
""" % RELU)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_control_c_ends_the_wait_for_a_stage_that_never_returns(self):
        done = self.run_program("""
import signal
started = threading.Event()
def stuck(task):
    started.set()
    while True: time.sleep(0.01)
stream = tessera.Runtime(["host"]).pipeline([tessera.Stage("stuck", stuck)]).stream()
stream.submit()
started.wait()
def interrupt():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
""")
        self.assertEqual(done.returncode, 130)
        self.assertIn("KeyboardInterrupt", done.stderr)


if __name__ == "__main__":
    unittest.main()
