// What a language model answers by ONNX Runtime, in float32: chat.cjs MODEL.onnx PROMPT_TOKENS COUNT
// PROMPT_TOKENS is a JSON array. Prints at most COUNT tokens as one JSON array. NODE_PATH has
// onnxruntime-node.
const ort = require("onnxruntime-node");

const kEnd = 2;

function largest(values) {
  let best = 0;
  for (let i = 1; i < values.length; ++i) if (values[i] > values[best]) best = i;
  return best;
}

function integers(values) {
  return new ort.Tensor("int64", BigInt64Array.from(values.map(BigInt)), [1, values.length]);
}

async function main(path, prompt, count) {
  // Else products of 8 bits saturate on processors without VNNI.
  const options = { extra: { session: { x64quantprecision: "1" } } };
  const model = await ort.InferenceSession.create(path, options);
  const caches = {};
  for (const name of model.inputNames) {
    if (name.startsWith("past_key_values.")) {
      caches[name] = new ort.Tensor("float32", new Float32Array(0), [1, 2, 0, 64]);
    }
  }
  // A run a token: with several in one, a model of 8 bits rounds them with one scale together.
  const input = JSON.parse(prompt);
  const tokens = [];
  for (let position = 0; tokens.length < Number(count); ++position) {
    const token = position < input.length ? input[position] : tokens[position - input.length];
    const result = await model.run({
      ...caches,
      input_ids: integers([token]),
      position_ids: integers([position]),
      attention_mask: integers(Array(position + 1).fill(1)),
    });
    if (position + 1 >= input.length) {
      const next = largest(result.logits.data);
      if (next === kEnd) break;
      tokens.push(next);
    }
    for (const name of Object.keys(caches)) {
      caches[name] = result[name.replace("past_key_values", "present")];
    }
  }
  console.log(JSON.stringify(tokens));
}

main(...process.argv.slice(2));
