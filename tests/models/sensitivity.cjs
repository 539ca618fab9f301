// How far a model's own reference moves when its inputs change a little: ONNX Runtime on the stored
// cases, every float input multiplied by 1 + e with |e| at most 2^-23, the last place of float32, or
// 2^-11, what rounding to float16 changes; several times with other numbers.
//
//   node sensitivity.cjs PACKAGES DATA MODEL [SEED]
//
//   input * (1 + e) ─► ONNX Runtime ─► cosine with the stored output
//
// One line per size of e: the least and the largest cosine of all outputs, cases (those whose inputs
// are stored unchanged) and repetitions. A device that rounds as much anywhere cannot be nearer.
const fs = require('fs');
const path = require('path');

const repetitions = 8;

function readArray(file) {
  const bytes = fs.readFileSync(file);
  const headerEnd = bytes[6] === 1 ? 10 + bytes.readUInt16LE(8) : 12 + bytes.readUInt32LE(8);
  const header = bytes.subarray(0, headerEnd).toString('latin1');
  const dims = header.match(/\(([^)]*)\)/)[1].split(',').filter(x => x.trim()).map(Number);
  const data = bytes.subarray(headerEnd);
  return {dims, bytes: data.buffer.slice(data.byteOffset, data.byteOffset + data.length)};
}

function readCases(data, model) {
  const cases = new Map();
  for (const line of fs.readFileSync(path.join(data, 'cases', 'CASES.tsv'), 'utf8').split('\n')) {
    const [name, one, direction, , tensor, type, , file, how] = line.split('\t');
    if (name !== model) continue;
    if (!cases.has(one)) cases.set(one, {in: [], out: [], raw: true});
    const found = cases.get(one);
    if (direction === 'in' && how !== 'raw') found.raw = false;
    if (found.raw) found[direction].push({tensor, type, ...readArray(path.join(data, file))});
  }
  return [...cases.values()].filter(one => one.raw && one.in.length > 0);
}

// A linear congruential generator: the same numbers everywhere.
function makeRandom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

function cosine(a, b) {
  let ab = 0, aa = 0, bb = 0;
  for (let i = 0; i < a.length; ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa === 0 && bb === 0 ? 1 : ab / Math.sqrt(aa * bb);
}

const arrays = {float32: Float32Array, uint8: Uint8Array, int8: Int8Array, int64: BigInt64Array};

async function main() {
  const [packages, data, model, seedText] = process.argv.slice(2);
  const seed = Number(seedText ?? 1);
  const ort = require(path.join(packages, 'node_modules', 'onnxruntime-node'));
  const cases = readCases(data, model);
  if (cases.length === 0) throw new Error(`no case of '${model}' whose inputs are stored as they are`);
  const session = await ort.InferenceSession.create(
      path.join(data, 'models', model + '.onnx'),
      {intraOpNumThreads: 1, logSeverityLevel: 3, extra: {session: {x64quantprecision: '1'}}});
  console.log(`${model}, seed ${seed}, ${repetitions} repetitions`);
  for (const [name, size] of [['last place of float32', 2 ** -23], ['rounding to float16', 2 ** -11]]) {
    const random = makeRandom(seed);
    let least = 1, largest = -1;
    for (let k = 0; k < repetitions; ++k) {
      for (const one of cases) {
        const feeds = {};
        for (const input of one.in) {
          let values = new arrays[input.type](input.bytes);
          if (input.type === 'float32') {
            values = values.map(x => x * (1 + size * (2 * random() - 1)));
          }
          feeds[input.tensor] = new ort.Tensor(input.type, values, input.dims);
        }
        const results = await session.run(feeds);
        for (const output of one.out) {
          if (output.type !== 'float32') continue;
          const found = cosine(results[output.tensor].data, new Float32Array(output.bytes));
          least = Math.min(least, found);
          largest = Math.max(largest, found);
        }
      }
    }
    console.log(`  inputs moved within the ${name}: cosine ${least.toFixed(6)} to ` +
                largest.toFixed(6));
  }
}

main().catch(error => {
  console.error(String(error));
  process.exit(1);
});
