// ONNX Runtime for compare_fused: writes a model as its optimiser leaves it, or runs one.
//
//   node fused_layers.cjs PACKAGES optimise MODEL RESULT
//   node fused_layers.cjs PACKAGES run MODEL FOLDER
//
// PACKAGES holds node_modules/onnxruntime-node. FOLDER/feeds.json: [{"name", "type", "dims", "file"}].
// Results go to FOLDER/results.json in the same form, their bytes to files beside it. Products of
// bytes are exact (session.x64quantprecision): without it u8 x s8 saturates on AVX2.
const fs = require('fs');
const path = require('path');

const arrays = {float32: Float32Array, uint8: Uint8Array, int8: Int8Array, int32: Int32Array,
                int64: BigInt64Array, bool: Uint8Array};

async function main() {
  const [packages, verb, model, target] = process.argv.slice(2);
  const ort = require(path.join(packages, 'node_modules', 'onnxruntime-node'));
  const options = {intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3,
                   extra: {session: {x64quantprecision: '1'}}};
  if (verb === 'optimise') {
    await ort.InferenceSession.create(
        model, {...options, graphOptimizationLevel: 'extended', optimizedModelFilePath: target});
    return;
  }
  const session = await ort.InferenceSession.create(
      model, {...options, graphOptimizationLevel: 'disabled'});
  const feeds = {};
  for (const feed of JSON.parse(fs.readFileSync(path.join(target, 'feeds.json'), 'utf8'))) {
    const bytes = fs.readFileSync(path.join(target, feed.file));
    const copy = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    feeds[feed.name] = new ort.Tensor(feed.type, new arrays[feed.type](copy), feed.dims);
  }
  const results = await session.run(feeds);
  const list = [];
  for (const name of session.outputNames) {
    const tensor = results[name];
    const file = `result_${list.length}.bin`;
    fs.writeFileSync(path.join(target, file),
                     Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength));
    list.push({name, type: tensor.type, dims: tensor.dims.map(Number), file});
  }
  fs.writeFileSync(path.join(target, 'results.json'), JSON.stringify(list));
}

main().catch(error => {
  console.error(String(error));
  process.exit(1);
});
