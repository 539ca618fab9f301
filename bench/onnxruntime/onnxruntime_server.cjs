// Runs ONNX models: one JSON line and raw bytes in, a JSON line and raw f32 bytes out.
//
//   out  {"ready": "1.30.0"}\n                              once, or {"error": "..."}\n
//   in   {"model": "x.onnx", "type": "float32", "dims": [1,3,48,320]}\n     + the elements' bytes
//   out  {"dims": [1,40,6625], "milliseconds": 9.5}\n       + 4 * count bytes, or {"error": "..."}\n
//
// "milliseconds" is the time of session.run alone: neither loading nor the pipe counts.
//
// usage: node onnxruntime_server.cjs FOLDER_WITH_NODE_MODULES [THREADS]
const path = require('path');

function answerLine(object) {
  process.stdout.write(JSON.stringify(object) + '\n');
}

const packageFolder = path.join(process.argv[2], 'node_modules', 'onnxruntime-node');
const threads = Number(process.argv[3] || 2);
let ort;
try {
  ort = require(packageFolder);
  answerLine({ready: require(path.join(packageFolder, 'package.json')).version});
} catch (error) {
  answerLine({error: String(error).split('\n')[0]});
  process.exit(1);
}

// Element types of an input.
const kArrays = {float32: Float32Array, uint8: Uint8Array, int8: Int8Array};

const sessions = new Map();
let pending = Buffer.alloc(0);
let queue = Promise.resolve();

async function session(model) {
  if (!sessions.has(model)) {
    const options = {intraOpNumThreads: threads, interOpNumThreads: 1, logSeverityLevel: 3};
    sessions.set(model, await ort.InferenceSession.create(model, options));
  }
  return sessions.get(model);
}

async function answer(header, bytes) {
  try {
    const s = await session(header.model);
    const data = new kArrays[header.type](
        bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
    const feeds = {[s.inputNames[0]]: new ort.Tensor(header.type, data, header.dims)};
    const begin = process.hrtime.bigint();
    const result = await s.run(feeds);
    const milliseconds = Number(process.hrtime.bigint() - begin) / 1e6;
    const output = result[s.outputNames[0]];
    answerLine({dims: output.dims.map(Number), milliseconds});
    process.stdout.write(Buffer.from(output.data.buffer, output.data.byteOffset, output.data.byteLength));
  } catch (error) {
    answerLine({error: String(error)});
  }
}

process.stdin.on('data', chunk => {
  pending = Buffer.concat([pending, chunk]);
  for (;;) {
    const end = pending.indexOf(10);
    if (end < 0) return;
    const header = JSON.parse(pending.subarray(0, end).toString());
    const size = kArrays[header.type].BYTES_PER_ELEMENT * header.dims.reduce((a, b) => a * b, 1);
    if (pending.length < end + 1 + size) return;
    const bytes = Buffer.from(pending.subarray(end + 1, end + 1 + size));
    pending = pending.subarray(end + 1 + size);
    queue = queue.then(() => answer(header, bytes));
  }
});
