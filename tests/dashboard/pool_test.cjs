// The page of a cluster's pool, in a browser without a screen, over real masters and nodes, and over a pool of a
// thousand nodes:
//
//   node pool_test.cjs BROWSER TESSERA [FOLDER]
//
// Screenshots go to FOLDER where there is one. Prints a line per check.
const { spawn, spawnSync } = require('node:child_process');
const { mkdirSync, mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join, resolve: absolute } = require('node:path');
const { createInterface } = require('node:readline');
const { Browser } = require('./browser.cjs');

const [program, command, folder] = process.argv.slice(2);
const tessera = absolute(command);
const children = new Set();
const work = mkdtempSync(join(tmpdir(), 'tessera-pool-'));

let failed = 0;
function check(what, ok, found) {
  console.log(`${ok ? 'ok    ' : 'FAILED'} ${what}${found === undefined ? '' : `: ${found}`}`);
  if (!ok) ++failed;
}

// A verb that runs on, once it has said that it has started.
async function background(...words) {
  const child = spawn(tessera, [...words, '--json'], { stdio: ['ignore', 'pipe', 'inherit'] });
  children.add(child);
  child.once('exit', () => children.delete(child));
  const lines = createInterface({ input: child.stdout });
  const start = await Promise.race([
    new Promise((resolve) => lines.once('line', (line) => resolve(JSON.parse(line)))),
    new Promise((_, reject) => child.once('exit', (code) => reject(new Error(`tessera ${words.join(' ')}: status ${code}`)))),
  ]);
  const end = () => new Promise((resolve) => { child.once('exit', resolve); child.kill('SIGTERM'); });
  return { start, end };
}

function run(...words) {
  const done = spawnSync(tessera, words, { encoding: 'utf8', cwd: work });
  if (done.status !== 0) throw new Error(`tessera ${words.join(' ')}: ${done.error ?? `status ${done.status}`}\n${done.stderr}`);
  return done.stdout;
}

const rows = (table) => `[...document.querySelectorAll('#${table} tr')].slice(1).map((row) => [...row.cells].map((cell) => cell.textContent))`;
const tile = (name) => `[...document.querySelectorAll('.tile')].find((one) => one.querySelector('.label').textContent === '${name}')?.querySelector('.value').textContent`;
const DATA = "document.getElementById('map').dataset";

async function shoot(browser, name) {
  if (folder) writeFileSync(join(folder, `${name}.png`), await browser.screenshot());
}

// Pixels of the map that have the page's colour of this name.
const pixelsOf = (name) => `(() => {
  const wanted = getComputedStyle(document.documentElement).getPropertyValue('--${name}').trim();
  const canvas = document.querySelector('#map canvas');
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let found = 0;
  for (let i = 0; i < pixels.length; i += 4) {
    const hex = '#' + [0, 1, 2].map((part) => pixels[i + part].toString(16).padStart(2, '0')).join('');
    if (hex === wanted && pixels[i + 3] === 255) ++found;
  }
  return found;
})()`;

async function aPoolOfDaemons(browser) {
  const cluster = await background('cluster', 'try', '--nodes', '3', '--port', '0');
  const { master } = cluster.start;
  const page = await background('cluster', 'watch', '--http', '0', '--master', master);
  run('cluster', 'alloc', 'a', '--cores', '6', '--tenant', 'anna', '--master', master);
  run('cluster', 'alloc', 'b', '--cores', '4', '--tenant', 'bert', '--node', 'n1', '--master', master);
  run('zoo', 'mobilenet_v1', '-o', 'model.onnx');
  await browser.open(page.start.url, { width: 1400, height: 1000 });
  await browser.until('both tenants', `${rows('tenants')}.length === 2`);
  const tenants = await browser.value(rows('tenants'));
  check('tenants have their cores, most first', JSON.stringify(tenants.map((row) => row.slice(0, 3))) === '[["anna","1","6"],["bert","1","4"]]', JSON.stringify(tenants));
  check('nodes and cores are counted', (await browser.value(tile('Nodes'))).startsWith('3 ') && (await browser.value(tile('Cores'))).startsWith('48 38 free'),
    await browser.value(tile('Cores')));
  check('every core is drawn', (await browser.value(`${DATA}.cores`)) === '48', await browser.value(`${DATA}.cores`));
  const [first, second, third] = [await browser.value(pixelsOf('k0')), await browser.value(pixelsOf('k1')), await browser.value(pixelsOf('k2'))];
  check('cores have the colours of their tenants, six and four of them', first > 0 && first * 4 === second * 6 && third === 0, `${first}, ${second}, ${third} pixels`);
  check('the master is named', (await browser.value("document.getElementById('master').textContent")).includes(`master ${master}`));
  const [x, y] = await browser.place('#map', 0, 0);
  await browser.mouse('mouseMoved', x + 88 + 5, y + 5, { button: 'none', buttons: 0 });
  await browser.until('the tooltip', "!document.getElementById('tooltip').hidden");
  const tip = await browser.value("document.getElementById('tooltip').textContent");
  check('a core says whose it is', /^n\d, card 0, group 0, core 0\n(a of anna|b of bert|free)$/.test(tip), JSON.stringify(tip));
  for (let i = 0; i < 2; ++i) run('run', 'model.onnx', '--arch', 'cloud16', '--device', `cluster:${master}?alloc=a&tenant=anna`, '--timing-only');
  await browser.until('runs in the queues', `${rows('queues')}.some((row) => row[0] === 'a' && Number(row[2]) >= 2)`);
  check('runs are counted where they are', true, JSON.stringify(await browser.value(rows('queues'))));
  await browser.until('the bandwidth of the node', `${rows('bandwidth')}.length >= 1`);
  const events = "[...document.querySelectorAll('#events div')].map((row) => row.textContent)";
  await browser.until('events of the allocations', `${events}.filter((text) => text.includes('acquire')).length === 2`);
  const times = (await browser.value(events)).map((text) => text.slice(0, 12));
  check('events are there, the newest first', JSON.stringify(times) === JSON.stringify([...times].sort().reverse()), times.join(' '));
  run('cluster', 'drain', 'n2', '--master', master);
  await browser.until('the drained card', `(${tile('Draining')}).startsWith('1 ')`);
  check('a drained node is marked', true);
  await shoot(browser, 'pool');
  run('cluster', 'free', 'b', '--tenant', 'bert', '--master', master);
  await browser.until('the tenant leaving', `${rows('tenants')}.length === 1`);
  check('what is given back goes from the page', (await browser.value(tile('Cores'))).startsWith('48 42 free'), await browser.value(tile('Cores')));
  await cluster.end();
  await browser.until('the problem', "!document.getElementById('problem').hidden");
  const problem = await browser.value("document.getElementById('problem').textContent");
  check('a master that is gone is said', problem.includes(`'${master}'`), problem);
  await browser.send('Page.navigate', { url: 'about:blank' });
  await page.end();
}

function largePool(nodes) {
  const pool = [], allocs = [];
  for (let i = 0; i < nodes; ++i) {
    pool.push({ node: `n${i}`, card: 0, arch: 'cloud16', cores: 16, groups: 4, free: 4, generation: 1, draining: i % 100 === 7 });
    for (let j = 0; j < 3; ++j) {
      allocs.push({ alloc: `a${i}_${j}`, tenant: `t${(i * 3 + j) % 200}`, node: `n${i}`, card: 0, cores: [4 * j, 4 * j + 1, 4 * j + 2, 4 * j + 3], cores_wanted: 4,
        epoch: 1, state: 'placed', figures: { runs: i, failures: 0, waiting: i % 7, bytes_in: 0, bytes_out: 0, busy_us: 0 } });
    }
  }
  return { master: 'm:1', epoch: 1, store: 'etcd', pool, allocs };
}

async function aPoolOfAThousandNodes(browser) {
  const file = join(work, 'pool.json');
  writeFileSync(file, JSON.stringify(largePool(1000)));
  const page = await background('cluster', 'watch', '--http', '0', '--file', file);
  await browser.open(page.start.url, { width: 1400, height: 1000 });
  await browser.until('a thousand cards', `${DATA}.cards === '1000'`);
  check('its cores are counted', /^16.000 4.000 free$/.test(await browser.value(tile('Cores'))), await browser.value(tile('Cores')));
  const drawn = Number(await browser.value(`${DATA}.drawn`));
  check('what is seen is drawn', drawn > 50 && drawn < 500, `${drawn} of 1000`);
  const elements = await browser.value("document.querySelectorAll('*').length");
  check('the page has no element for each core or allocation', elements < 1000, elements);
  check('tables say how much more there is', (await browser.value(rows('tenants'))).at(-1)[0] === 'and 180 more', JSON.stringify((await browser.value(rows('tenants'))).at(-1)));
  await browser.value("document.getElementById('map').scrollTop = 1e6");
  await browser.until('the end of the pool', `Number(${DATA}.first) + Number(${DATA}.drawn) === 1000`);
  check('it is scrolled to its end', true, `${await browser.value(`${DATA}.first`)} is the first`);
  await shoot(browser, 'pool_1000');
  await browser.value("{ const box = document.getElementById('filter'); box.value = 'n777'; box.dispatchEvent(new Event('input')); }");
  await browser.until('one node', `${DATA}.cards === '1' && ${DATA}.drawn === '1'`);
  check('nodes are found by name', (await browser.value("document.getElementById('shown').textContent")) === '1 cards');
  await browser.send('Page.navigate', { url: 'about:blank' });
  await page.end();
}

(async () => {
  if (folder) mkdirSync(folder, { recursive: true });
  const browser = await Browser.start(program);
  try {
    await aPoolOfDaemons(browser);
    await aPoolOfAThousandNodes(browser);
    check('the page made no errors', browser.errors.length === 0, browser.errors.join('; ') || undefined);
  } finally {
    for (const child of children) child.kill('SIGKILL');
    await browser.close();
    rmSync(work, { recursive: true, force: true });
  }
  process.exitCode = failed ? 1 : 0;
})().catch((error) => {
  console.log(`FAILED ${error.stack}`);
  process.exit(1);
});
