// Runs a derived ONNX model in ONNX Runtime at every optimisation level with 1 and 2 threads, and
// compares every output bit with golden vectors (src/tools/files/golden.h).
//
// usage: node check_golden.cjs FOLDER_WITH_NODE_MODULES MODEL.onnx GOLDEN_FOLDER [LEVEL...]
// Prints one JSON object; status 0 where all bits are equal.
const fs = require('fs');
const path = require('path');

const [packages, model, folder, ...chosen] = process.argv.slice(2);
const ort = require(path.join(packages, 'node_modules', 'onnxruntime-node'));
const levels = chosen.length > 0 ? chosen : ['disabled', 'basic', 'extended', 'all'];
const types = {
  f16: ['float16', Uint16Array], f32: ['float32', Float32Array], f64: ['float64', Float64Array],
  i8: ['int8', Int8Array], u8: ['uint8', Uint8Array], i16: ['int16', Int16Array],
  u16: ['uint16', Uint16Array], i32: ['int32', Int32Array], u32: ['uint32', Uint32Array],
  i64: ['int64', BigInt64Array], u64: ['uint64', BigUint64Array], bool: ['bool', Uint8Array],
};

function readTensor(entry) {
  const [type, View] = types[entry.format];
  const bytes = fs.readFileSync(path.join(folder, entry.file));
  const copy = new Uint8Array(bytes).buffer;
  return new ort.Tensor(type, new View(copy), entry.dims);
}

function compare(entry, actual, report) {
  const wanted = fs.readFileSync(path.join(folder, entry.file));
  const found = Buffer.from(actual.data.buffer, actual.data.byteOffset, actual.data.byteLength);
  const size = types[entry.format][1].BYTES_PER_ELEMENT;
  const count = wanted.length / size;
  report.values_compared += count;
  if (wanted.equals(found)) return;
  for (let i = 0; i < count; ++i) {
    const a = wanted.subarray(i * size, (i + 1) * size);
    const b = found.subarray(i * size, (i + 1) * size);
    if (a.equals(b)) continue;
    ++report.mismatches;
    report.first = report.first || {
      output: entry.name, element: i, wanted: a.toString('hex'), found: b.toString('hex'),
    };
  }
}

async function main() {
  const golden = JSON.parse(fs.readFileSync(path.join(folder, 'golden.json'), 'utf8'));
  const report = {model: path.basename(model), values_compared: 0, mismatches: 0, runs: 0};
  for (const level of levels) {
    for (const threads of [1, 2]) {
      const session = await ort.InferenceSession.create(model, {
        graphOptimizationLevel: level, intraOpNumThreads: threads, interOpNumThreads: 1,
        logSeverityLevel: 3,
      });
      for (const vector of golden.vectors) {
        const feeds = {};
        for (const entry of vector.inputs) feeds[entry.name] = readTensor(entry);
        const before = report.mismatches;
        const result = await session.run(feeds);
        for (const entry of vector.outputs) compare(entry, result[entry.name], report);
        if (before === 0 && report.mismatches > 0) {
          Object.assign(report.first, {level, threads, source: vector.source});
        }
        ++report.runs;
      }
      await session.release();
    }
  }
  console.log(JSON.stringify(report));
  process.exit(report.mismatches === 0 ? 0 : 1);
}

main().catch(error => {
  console.log(JSON.stringify({model: path.basename(model), error: String(error)}));
  process.exit(1);
});
