"""States that grow, in Python: bits, many sequences at once, failures."""
import os
import sys
import tempfile
import unittest

try:
    import numpy
except ModuleNotFoundError:
    print("skipped: NumPy is not installed")
    sys.exit(77)

import models
import tessera

STATES = [("past.k", "present.k"), ("past.v", "present.v")]
OPTIONS = {"rows_max": 12, "capacity_min": 4}
WIDTH = 16


def token(sequence, step):
    return numpy.random.default_rng(100 * sequence + step).standard_normal((1, 1, WIDTH)).astype(numpy.float32)


def mask(rows, seen):
    array = numpy.zeros((1, 1, rows), numpy.float32)
    array[..., seen:] = -30000
    return array


def inputs(of, sequence, step):
    """Of a session, or of a stream."""
    return token(sequence, step), mask(of.capacity, of.rows + 1)


class Growing(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = models.write_decoder(os.path.join(self.folder.name, "decoder.onnx"))

    def tearDown(self):
        self.folder.cleanup()

    def by_plain_inputs(self, sequence, steps):
        """What runs give whose caches are inputs of the true length."""
        session = tessera.Session(self.path, "host")
        caches = [numpy.zeros((1, 0, WIDTH), numpy.float32)] * 2
        results = []
        for step in range(steps):
            result, *caches = session.run({"x": token(sequence, step), "past.k": caches[0], "past.v": caches[1],
                                           "mask": mask(step + 1, step + 1)})
            results.append(result)
        return results

    def test_a_session_has_the_bits_of_caches_that_are_plain_inputs(self):
        expected = self.by_plain_inputs(0, 6)
        for device in ("host", "sim", "ref"):
            session = tessera.GrowingSession(self.path, STATES, device, **OPTIONS)
            self.assertEqual(session.inputs, [("x", "float32", [1, 1, WIDTH]), ("mask", "float32", [1, 1, -1])])
            for step in range(6):
                result = session.run(*inputs(session, 0, step))
                self.assertEqual(result.names, ["y"])
                numpy.testing.assert_array_equal(result["y"], expected[step], f"{device} {step}")
            self.assertEqual((session.rows, session.capacity, session.networks_compiled), (6, 8, 2))
            session.keep_rows(5)
            numpy.testing.assert_array_equal(session.run(*inputs(session, 0, 5))[0], expected[5])
            session.clear()
            array, of = inputs(session, 0, 0)
            numpy.testing.assert_array_equal(session.run({"mask": of, "x": array})[0], expected[0])

    def test_sequences_in_flight_have_the_bits_of_caches_that_are_plain_inputs(self):
        expected = [self.by_plain_inputs(sequence, 6) for sequence in range(3)]
        runtime = tessera.Runtime([tessera.Device("host"), tessera.Device("sim")])
        pipeline = tessera.GrowingPipeline(runtime, self.path, STATES, **OPTIONS)
        self.assertEqual([name for name, *_ in pipeline.inputs], ["x", "mask"])
        streams = [pipeline.stream(device=device) for device in ("host0", "sim0", "")]
        jobs = [[stream.submit(*inputs(stream, sequence, step)) for sequence, stream in enumerate(streams)]
                for step in range(6)]
        for step, of_step in enumerate(jobs):
            for sequence, job in enumerate(of_step):
                result = job.wait()
                numpy.testing.assert_array_equal(result["y"], expected[sequence][step], f"{sequence} {step}")
                self.assertEqual((result.names, result.device), (["y"], streams[sequence].device))
        self.assertEqual(pipeline.status(), {"streams": 3, "submitted": 18, "networks_compiled": 2})
        streams[0].keep_rows(4)
        for step in (4, 5):
            result = streams[0].submit(*inputs(streams[0], 0, step)).wait()
            numpy.testing.assert_array_equal(result[0], expected[0][step])
        found = []
        streams[1].clear()
        streams[1].submit(*inputs(streams[1], 1, 0), callback=lambda result, error: found.append(result["y"]))
        streams[1].wait_until_done()
        pipeline.wait_until_done()
        numpy.testing.assert_array_equal(found[0], expected[1][0])
        del streams
        self.assertEqual(pipeline.status()["streams"], 0)

    def test_a_failure_says_where_the_sequence_goes_on(self):
        runtime = tessera.Runtime([tessera.Device("host")])
        stream = tessera.GrowingPipeline(runtime, self.path, STATES, **OPTIONS).stream()
        stream.submit(*inputs(stream, 0, 0)).wait()
        with self.assertRaises(tessera.Error) as late:
            stream.submit(*inputs(stream, 0, 1), deadline=0).wait()
        self.assertEqual(late.exception.failure, "deadline")
        stream.wait_until_done()
        stream.keep_rows(1)
        result = stream.submit(*inputs(stream, 0, 1)).wait()
        numpy.testing.assert_array_equal(result[0], self.by_plain_inputs(0, 2)[1])

    def test_errors_say_what_is_allowed(self):
        runtime = tessera.Runtime([tessera.Device("host")])
        for make in (lambda states, **options: tessera.GrowingSession(self.path, states, **options),
                     lambda states, **options: tessera.GrowingPipeline(runtime, self.path, states, **options)):
            with self.assertRaisesRegex(tessera.Error, "state 'x' -> 'y': the output is made by MatMul"):
                make([("x", "y")])
            with self.assertRaisesRegex(tessera.Error, "states: none; name at least one"):
                make([])
            with self.assertRaisesRegex(tessera.Error, "0 rows, the first network for 64; allowed are 1 to 1048576"):
                make(STATES, rows_max=0)
        stream = tessera.GrowingPipeline(runtime, self.path, STATES, rows_max=1).stream()
        stream.submit(token(0, 0), mask(1, 1)).wait()
        self.assertEqual((stream.rows, stream.capacity), (1, 0))
        with self.assertRaisesRegex(tessera.Error, "the states have 1 rows, as many as"):
            stream.submit(token(0, 1), mask(1, 1))
        with self.assertRaisesRegex(tessera.Error, "2 rows to keep, the states have 1"):
            stream.keep_rows(2)
        with self.assertRaisesRegex(tessera.Error, "given 1 inputs; the model has 2"):
            stream.submit(token(0, 1))


if __name__ == "__main__":
    unittest.main()
