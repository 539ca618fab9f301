// The words of a recording by ONNX Runtime, in float32: transcribe.cjs MODEL_FOLDER RECORDING.wav
// Prints the tokens as one JSON array. NODE_PATH has onnxruntime-node.
const fs = require("fs");
const ort = require("onnxruntime-node");

function samplesOf(path) {
  const bytes = fs.readFileSync(path);
  const at = bytes.indexOf("data") + 8; // 16-bit PCM, one channel, 16000 a second
  const count = Math.floor(bytes.readUInt32LE(at - 4) / 2);
  return Float32Array.from({ length: count }, (_, i) => bytes.readInt16LE(at + 2 * i) / 32768);
}

function largest(values) {
  let best = 0;
  for (let i = 1; i < values.length; ++i) if (values[i] > values[best]) best = i;
  return best;
}

async function main(folder, recording) {
  // Else products of 8 bits saturate on processors without VNNI.
  const options = { extra: { session: { x64quantprecision: "1" } } };
  const encoder = await ort.InferenceSession.create(`${folder}/encoder_model.onnx`, options);
  const decoder = await ort.InferenceSession.create(`${folder}/decoder_model_merged.onnx`, options);
  const samples = samplesOf(recording);
  const sound = new ort.Tensor("float32", samples, [1, samples.length]);
  const vectors = (await encoder.run({ input_values: sound })).last_hidden_state;
  const caches = {};
  for (const name of decoder.inputNames) {
    if (name.startsWith("past_key_values.")) {
      caches[name] = new ort.Tensor("float32", new Float32Array(0), [1, 8, 0, 36]);
    }
  }
  const tokens = [];
  let token = 1;
  for (let i = 0; i < Math.floor((samples.length / 16000) * 6); ++i) {
    const result = await decoder.run({
      ...caches,
      input_ids: new ort.Tensor("int64", BigInt64Array.from([BigInt(token)]), [1, 1]),
      encoder_hidden_states: vectors,
      use_cache_branch: new ort.Tensor("bool", Uint8Array.from([i > 0 ? 1 : 0]), [1]),
    });
    token = largest(result.logits.data);
    if (token === 2) break;
    tokens.push(token);
    for (const name of Object.keys(caches)) {
      const present = result[name.replace("past_key_values", "present")];
      if (present.size > 0) caches[name] = present;
    }
  }
  console.log(JSON.stringify(tokens));
}

main(...process.argv.slice(2));
