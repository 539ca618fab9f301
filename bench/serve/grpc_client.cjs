// Asks a server of the Open Inference Protocol over gRPC by npm's client, from the protocol's file.
//
//   node grpc_client.cjs NODE_MODULES PROTO ADDRESS check            every call once; ends with 1 where one is wrong
//   node grpc_client.cjs NODE_MODULES PROTO ADDRESS load|live SECONDS AT_ONCE
//   node grpc_client.cjs NODE_MODULES PROTO - empty SECONDS AT_ONCE
//
// `load` asks a model, `live` whether the server lives; `empty` asks the same of a server of npm's own in a process
// beside it, which shows what the client costs. They print {"requests", "per_second", "p50_us", "p99_us"}.
const assert = require('node:assert');
const path = require('node:path');
const [, , modules, proto, address, what, seconds, atOnce] = process.argv;
const grpc = require(path.join(modules, '@grpc/grpc-js'));
const loader = require(path.join(modules, '@grpc/proto-loader'));
const service = grpc.loadPackageDefinition(loader.loadSync(proto, {keepCase: true, longs: Number}))
                    .inference.GRPCInferenceService;
let client = address === '-' ? null : new service(address, grpc.credentials.createInsecure());

const call = (name, request) => new Promise((resolve, reject) => client[name](
    request, (error, response) => error ? reject(error) : resolve(response)));

const request = (values) => ({
  model_name: 'zero',
  id: '7',
  inputs: [{name: 'x', datatype: 'FP32', shape: [1, 4]}],
  raw_input_contents: [Buffer.from(Float32Array.from(values).buffer)],
});
const floats = (bytes) => Array.from(new Float32Array(Uint8Array.from(bytes).buffer));

async function check() {
  assert.strictEqual((await call('ServerLive', {})).live, true);
  assert.strictEqual((await call('ServerReady', {})).ready, true);
  assert.strictEqual((await call('ServerMetadata', {})).name, 'tessera');
  assert.strictEqual((await call('ModelReady', {name: 'zero'})).ready, true);
  const metadata = await call('ModelMetadata', {name: 'zero'});
  assert.deepStrictEqual(metadata.inputs[0].shape, [1, 4]);
  const answer = await call('ModelInfer', request([1, -2, 3, 4]));
  assert.strictEqual(answer.id, '7');
  assert.deepStrictEqual(floats(answer.raw_output_contents[0]), [1, -2, 3, 4]);
  const typed = request([]);
  delete typed.raw_input_contents;
  typed.inputs[0].contents = {fp32_contents: [4, 3, 2, 1]};
  const other = await call('ModelInfer', typed);
  assert.deepStrictEqual(floats(other.raw_output_contents[0]), [4, 3, 2, 1]);
  await assert.rejects(call('ModelInfer', {model_name: 'none'}),
                       (error) => error.code === grpc.status.NOT_FOUND);
  await assert.rejects(call('ModelInfer', request([1])),
                       (error) => error.code === grpc.status.INVALID_ARGUMENT);
  const statistics = await call('ModelStatistics', {name: 'zero'});
  assert.ok(statistics.model_stats[0].inference_count >= 2);
  const index = await call('RepositoryIndex', {});
  assert.ok(index.models.some((model) => model.name === 'zero' && model.state === 'READY'));
  await call('RepositoryModelUnload', {model_name: 'zero'});
  await call('RepositoryModelLoad', {model_name: 'zero'});
  const regions = (await call('SystemSharedMemoryStatus', {})).regions ?? {};
  assert.strictEqual(Object.keys(regions).length, 0);
  const stream = client.ModelStreamInfer();
  const ids = [];
  stream.on('data', (response) => ids.push(response.infer_response.id));
  const ended = new Promise((resolve) => stream.on('end', resolve));
  for (let i = 0; i < 10; ++i) stream.write({...request([i, 0, 0, 0]), id: String(i)});
  stream.end();
  await ended;
  assert.strictEqual(new Set(ids).size, 10);
}

// In a process of its own: says its port.
function serveNothing() {
  const server = new grpc.Server();
  server.addService(service.service, {ServerLive: (call, answer) => answer(null, {live: true})});
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(),
                   (error, port) => process.send(port));
  return new Promise(() => {});
}

async function empty() {
  const child = require('node:child_process').fork(__filename, [modules, proto, '-', 'serve']);
  const port = await new Promise((resolve) => child.once('message', resolve));
  client = new service(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
  await load('ServerLive', {});
  child.kill();
}

async function load(name, message) {
  const until = process.hrtime.bigint() + BigInt(Math.round(Number(seconds) * 1e9));
  const begin = process.hrtime.bigint();
  const times = [];
  const one = async () => {
    while (process.hrtime.bigint() < until) {
      const from = process.hrtime.bigint();
      await call(name, message);
      times.push(Number(process.hrtime.bigint() - from) / 1e3);
    }
  };
  await Promise.all(Array.from({length: Number(atOnce)}, one));
  const elapsed = Number(process.hrtime.bigint() - begin) / 1e9;
  times.sort((a, b) => a - b);
  console.log(JSON.stringify({
    requests: times.length,
    per_second: times.length / elapsed,
    p50_us: times[Math.floor(times.length / 2)],
    p99_us: times[Math.floor(times.length * 0.99)],
  }));
}

const parts = {
  check,
  load: () => load('ModelInfer', request([1, -2, 3, 4])),
  live: () => load('ServerLive', {}),
  empty,
  serve: serveNothing,
};
parts[what]().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
