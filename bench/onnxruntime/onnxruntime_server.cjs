// Runs ONNX models: one JSON line and raw bytes in, a JSON line and raw f32 bytes out.
//
//   out  {"ready": "1.30.0"}\n                              once, or {"error": "..."}\n
//   in   {"model": "x.onnx", "type": "float32", "dims": [1,3,48,320]}\n     + the elements' bytes
//   out  {"dims": [1,40,6625], "milliseconds": 9.5}\n       + 4 * count bytes, or {"error": "..."}\n
//   in   {"model": "x.onnx", "inputs": [{"type": "float32", "dims": [1,576]}, ...]}\n   + all elements' bytes
//   out  {"outputs": [[1,1], [2,1,128]], "types": ["float32", "float32"], "milliseconds": 0.2}\n
//        + all outputs' bytes
//   in   the same with "profile": 5  ──►  out  {"layers": {"conv1": 812.5, ...}}\n   mean microseconds
//
// "milliseconds" is the time of session.run alone: neither loading nor the pipe counts.
//
// usage: node onnxruntime_server.cjs FOLDER_WITH_NODE_MODULES [THREADS [no-spinning]]
const fs = require('fs');
const os = require('os');
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
const kArrays = {
  float32: Float32Array, float16: Uint16Array, uint8: Uint8Array, int8: Int8Array,
  int32: Int32Array, int64: BigInt64Array, bool: Uint8Array};

const sessions = new Map();
let pending = Buffer.alloc(0);
let queue = Promise.resolve();

async function session(model) {
  if (!sessions.has(model)) {
    const options = {intraOpNumThreads: threads, interOpNumThreads: 1, logSeverityLevel: 3};
    // Each session has threads of its own, which look for work for 50 ms after a run: where models
    // take turns, those of one stand in the way of the next.
    if (process.argv[4] === 'no-spinning') {
      options.extra = {session: {intra_op: {allow_spinning: '0'}}};
    }
    sessions.set(model, await ort.InferenceSession.create(model, options));
  }
  return sessions.get(model);
}

// Mean microseconds of each node over `runs` runs of a session of its own, the first not counted.
async function layerTimes(header, bytes) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'onnxruntime_profile.'));
  try {
    const s = await ort.InferenceSession.create(header.model, {
      intraOpNumThreads: threads, interOpNumThreads: 1, logSeverityLevel: 3,
      enableProfiling: true, profileFilePrefix: path.join(folder, 'profile')});
    const feeds = feedsOf(s, header, bytes);
    for (let run = 0; run <= header.profile; ++run) await s.run(feeds);
    s.endProfiling();
    const file = path.join(folder, fs.readdirSync(folder)[0]);
    const durations = {};
    for (const event of JSON.parse(fs.readFileSync(file))) {
      if (event.cat !== 'Node' || !event.name.endsWith('_kernel_time')) continue;
      const name = event.name.slice(0, -'_kernel_time'.length);
      (durations[name] = durations[name] || []).push(event.dur);
    }
    const layers = {};
    for (const [name, all] of Object.entries(durations)) {
      const counted = all.slice(all.length / (header.profile + 1));
      layers[name] = counted.reduce((a, b) => a + b, 0) / header.profile;
    }
    return layers;
  } finally {
    fs.rmSync(folder, {recursive: true});
  }
}

// One input, or those that the header lists.
function inputsOf(header) {
  return header.inputs || [{type: header.type, dims: header.dims}];
}

function byteCount(input) {
  return kArrays[input.type].BYTES_PER_ELEMENT * input.dims.reduce((a, b) => a * b, 1);
}

// The tensors of a header that lists all inputs, in their order.
function feedsOf(s, header, bytes) {
  const feeds = {};
  let at = bytes.byteOffset;
  header.inputs.forEach((input, i) => {
    const end = at + byteCount(input);
    const data = new kArrays[input.type](bytes.buffer.slice(at, end));
    feeds[s.inputNames[i]] = new ort.Tensor(input.type, data, input.dims);
    at = end;
  });
  return feeds;
}

// A model with all its inputs; all outputs are answered.
async function answerAll(header, bytes) {
  const s = await session(header.model);
  const feeds = feedsOf(s, header, bytes);
  const begin = process.hrtime.bigint();
  const result = await s.run(feeds);
  const milliseconds = Number(process.hrtime.bigint() - begin) / 1e6;
  const outputs = s.outputNames.map(name => result[name]);
  answerLine({outputs: outputs.map(output => output.dims.map(Number)),
    types: outputs.map(output => output.type), milliseconds});
  for (const output of outputs) {
    process.stdout.write(
        Buffer.from(output.data.buffer, output.data.byteOffset, output.data.byteLength));
  }
}

async function answer(header, bytes) {
  try {
    if (header.profile) return answerLine({layers: await layerTimes(header, bytes)});
    if (header.inputs) return await answerAll(header, bytes);
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
    const size = inputsOf(header).reduce((sum, input) => sum + byteCount(input), 0);
    if (pending.length < end + 1 + size) return;
    const bytes = Buffer.from(pending.subarray(end + 1, end + 1 + size));
    pending = pending.subarray(end + 1 + size);
    queue = queue.then(() => answer(header, bytes));
  }
});
