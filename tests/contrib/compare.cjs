// Runs every model of a folder in ONNX Runtime, on the input beside it, and compares the outputs beside it.
//
//   node compare.cjs FOLDER
// CASE.onnx, CASE.json: {inputs: {NAME: {type, dims, data}}, outputs: [[...], ...], tolerance}
const fs = require('fs');
const path = require('path');
const ort = require('onnxruntime-node');

// Of floats the tolerance times the largest and the value; of whole numbers one step, since a value that lies between two may
// be rounded to either.
function difference(found, expected, tolerance) {
  if (found.length !== expected.length) return `${found.length} values, ${expected.length} expected`;
  const whole = !(found instanceof Float32Array);
  const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  for (let i = 0; i < expected.length; ++i) {
    const allowed = whole ? 1 : tolerance * (largest + Math.abs(expected[i])) + 1e-6;
    if (!(Math.abs(Number(found[i]) - expected[i]) <= allowed)) {
      return `value ${i} is ${found[i]}, ${expected[i]} here`;
    }
  }
  return '';
}

async function main(folder) {
  let wrong = 0;
  const models = fs.readdirSync(folder).filter((name) => name.endsWith('.onnx')).sort();
  for (const model of models) {
    const example = JSON.parse(fs.readFileSync(path.join(folder, model.replace('.onnx', '.json'))));
    const feeds = {};
    for (const [name, input] of Object.entries(example.inputs)) {
      const data = input.type === 'int64' ? BigInt64Array.from(input.data.map(BigInt))
        : input.type === 'int32' ? Int32Array.from(input.data) : Float32Array.from(input.data);
      feeds[name] = new ort.Tensor(input.type, data, input.dims);
    }
    let message;
    try {
      const session = await ort.InferenceSession.create(path.join(folder, model), {logSeverityLevel: 3});
      const results = await session.run(feeds);
      message = session.outputNames.map((name, i) => difference(results[name].data, example.outputs[i], example.tolerance))
        .filter((text) => text !== '').join('; ');
    } catch (error) {
      message = error.message.slice(0, 300);
    }
    if (message !== '') ++wrong;
    console.log(`${message === '' ? 'same ' : 'WRONG'} ${model} ${message}`);
  }
  console.log(`${models.length} cases, ${wrong} wrong`);
  process.exit(wrong === 0 && models.length > 0 ? 0 : 1);
}

main(process.argv[2]);
