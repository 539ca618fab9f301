// Runs ONNX models in float32 for the tests: one JSON line and raw f32 bytes in, the same out.
//
//   {"model": "x.onnx", "dims": [1,3,48,320]}\n  + 4 * count bytes
//   {"dims": [1,40,6625]}\n                      + 4 * count bytes, or {"error": "..."}\n
//
// usage: node onnxruntime_server.cjs FOLDER_WITH_NODE_MODULES
const path = require('path');
const ort = require(path.join(process.argv[2], 'node_modules', 'onnxruntime-node'));

const sessions = new Map();
let pending = Buffer.alloc(0);
let queue = Promise.resolve();

async function session(model) {
  if (!sessions.has(model)) {
    sessions.set(model, await ort.InferenceSession.create(model, {intraOpNumThreads: 2, logSeverityLevel: 3}));
  }
  return sessions.get(model);
}

async function answer(header, bytes) {
  try {
    const s = await session(header.model);
    const data = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
    const result = await s.run({[s.inputNames[0]]: new ort.Tensor('float32', data, header.dims)});
    const output = result[s.outputNames[0]];
    process.stdout.write(JSON.stringify({dims: output.dims.map(Number)}) + '\n');
    process.stdout.write(Buffer.from(output.data.buffer, output.data.byteOffset, output.data.byteLength));
  } catch (error) {
    process.stdout.write(JSON.stringify({error: String(error)}) + '\n');
  }
}

process.stdin.on('data', chunk => {
  pending = Buffer.concat([pending, chunk]);
  for (;;) {
    const end = pending.indexOf(10);
    if (end < 0) return;
    const header = JSON.parse(pending.subarray(0, end).toString());
    const size = 4 * header.dims.reduce((a, b) => a * b, 1);
    if (pending.length < end + 1 + size) return;
    const bytes = Buffer.from(pending.subarray(end + 1, end + 1 + size));
    pending = pending.subarray(end + 1 + size);
    queue = queue.then(() => answer(header, bytes));
  }
});
