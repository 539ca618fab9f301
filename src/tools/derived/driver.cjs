// Runs derived ONNX models in ONNX Runtime under several configurations (level and threads).
//
//   node derived/driver.cjs JOB.json        see derived/runtimes.cc for the job
//
// Status 0 where everything ran; the results lie in files.
const fs = require('fs');
const path = require('path');

const job = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const ort = require(path.join(job.packages, 'node_modules', 'onnxruntime-node'));
const types = {
  f16: ['float16', Uint16Array], f32: ['float32', Float32Array], f64: ['float64', Float64Array],
  i8: ['int8', Int8Array], u8: ['uint8', Uint8Array], i16: ['int16', Int16Array],
  u16: ['uint16', Uint16Array], i32: ['int32', Int32Array], u32: ['uint32', Uint32Array],
  i64: ['int64', BigInt64Array], u64: ['uint64', BigUint64Array], bool: ['bool', Uint8Array],
};

function readTensor(port, file) {
  const [type, View] = types[port.format];
  return new ort.Tensor(type, new View(new Uint8Array(fs.readFileSync(file)).buffer), port.dims);
}

async function runProgram(program) {
  for (const [configuration, {level, threads, vectors}] of program.configurations.entries()) {
    if (vectors.length === 0) continue;
    const session = await ort.InferenceSession.create(program.file, {
      graphOptimizationLevel: level, intraOpNumThreads: threads, interOpNumThreads: 1,
      logSeverityLevel: 3,
    });
    for (const vector of vectors) {
      const feeds = {};
      program.inputs.forEach((port, i) => {
        feeds[port.name] = readTensor(port, program.vectors[vector][i]);
      });
      const results = await session.run(feeds);
      program.outputs.forEach((port, i) => {
        const data = results[port.name].data;
        const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
        fs.writeFileSync(`${program.stem}_c${configuration}_v${vector}_${i}`, bytes);
      });
    }
    await session.release();
  }
}

async function main() {
  for (const program of job.programs) {
    try {
      await runProgram(program);
    } catch (error) {
      console.log(`${program.name}: ${error}`);
      process.exit(1);
    }
  }
}

main();
