// What a person does with the page, done in a browser without a screen:
//
//   node page_test.cjs BROWSER SERVER [FOLDER]
//
// SERVER is scripted_server; screenshots go to FOLDER where there is one. Prints a line per check.
const { spawn } = require('node:child_process');
const { mkdirSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');
const { createInterface } = require('node:readline');
const { Browser } = require('./browser.cjs');

const [program, serverProgram, folder] = process.argv.slice(2);
const EVENTS_KEPT = 4000; // a few seconds; before that there are only bins

let failed = 0;
function check(what, ok, found) {
  console.log(`${ok ? 'ok    ' : 'FAILED'} ${what}${found === undefined ? '' : `: ${found}`}`);
  if (!ok) ++failed;
}

async function startServer(...more) {
  const server = spawn(serverProgram, [String(EVENTS_KEPT), ...more], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: server.stdout });
  const [url] = await Promise.race([
    new Promise((resolve) => lines.once('line', (line) => resolve([line]))),
    new Promise((_, reject) => server.once('exit', (code) => reject(new Error(`scripted_server ended, status ${code}`)))),
  ]);
  return { server, url };
}

// The timeline's own account of what it shows.
const DATA = "document.getElementById('timeline').dataset";
const view = async (browser) => {
  const { from, to, mode, drawn, following } = await browser.value(`({...${DATA}})`);
  return { from: Number(from), to: Number(to), span: to - from, mode, drawn: Number(drawn), following: following === 'true' };
};

async function dataArrives(browser) {
  await browser.until('events in the page', `Number(${DATA}.received) > 200`);
  await browser.until('events in the picture', `${DATA}.mode === 'events' && Number(${DATA}.drawn) > 100`);
  const first = await view(browser);
  await browser.until('the view moving on', `Number(${DATA}.to) > ${first.to + 5e8}`);
  check('data arrives and the view moves on', true, `${first.drawn} events drawn`);
  const inked = await browser.value(`(() => {
    const canvas = document.querySelector('#timeline canvas');
    const pixels = canvas.getContext('2d').getImageData(130, 24, canvas.width - 140, 60).data;
    const colours = new Set();
    for (let i = 0; i < pixels.length; i += 4) colours.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
    return colours.size;
  })()`);
  check('the rows of the first kernel hold marks and lines', inked > 5, `${inked} colours`);
  await browser.until('points in the charts', "[...document.querySelectorAll('.chart')].every((chart) => chart.querySelector('canvas'))");
  const bars = await browser.value("[...document.querySelectorAll('#kernels .value')].map((value) => parseFloat(value.textContent))");
  const rows = JSON.parse(await browser.value(`${DATA}.rows`));
  const names = Object.keys(rows);
  const wanted = ['sim0 sim0: writes', ...['A', 'B'].flatMap((kernel) => ['writes', 'tasks', 'reads'].map((row) => `sim0 kernel ${kernel}: ${row}`))];
  check('the weights have a row of the device, each kernel its writes, tasks and reads',
    JSON.stringify(names.slice(0, 7)) === JSON.stringify(wanted), names.join(' | '));
  check('each of these rows holds events', wanted.slice(1).every((name) => rows[name] > 10), wanted.map((name) => rows[name]).join(', '));
  check('each kernel has its utilisation in percent', bars.length === 2 && bars.every((bar) => bar > 10 && bar < 90), bars.join(', '));
}

async function zoomWorks(browser) {
  const before = await view(browser);
  check('the page follows at first', before.following);
  await browser.drag('#timeline', 0.5, 0.6);
  await browser.until('a shorter view', `Number(${DATA}.to) - Number(${DATA}.from) < ${before.span / 4}`);
  const near = await view(browser);
  check('dragging zooms to what was dragged over', near.span < before.span * 0.2 && near.span > before.span * 0.05 && !near.following,
    `${before.span / 1e6} ms to ${near.span / 1e6} ms`);
  await new Promise((resolve) => setTimeout(resolve, 400));
  const still = await view(browser);
  check('the zoomed view stands still', still.from === near.from && still.to === near.to);
  check('the zoomed view shows single events', still.mode === 'events' && still.drawn > 0, `${still.drawn} drawn`);
  const [x, y] = await browser.place('#timeline', 0.6, 0.5);
  await browser.mouse('mouseWheel', x, y, { deltaX: 0, deltaY: -100, button: 'none' });
  await browser.until('the wheel zooming in', `Number(${DATA}.to) - Number(${DATA}.from) < ${near.span * 0.9}`);
  check('the wheel zooms', true);
}

async function pauseWorks(browser) {
  await browser.click('#live');
  await browser.until('following again', `${DATA}.following === 'true'`);
  await browser.click('#live');
  await browser.until('standing still', `${DATA}.following === 'false'`);
  await new Promise((resolve) => setTimeout(resolve, 300));
  const first = await view(browser);
  await new Promise((resolve) => setTimeout(resolve, 300));
  check('pause holds the view', (await view(browser)).to === first.to);
}

async function scrollBackWorks(browser, url) {
  // Until the beginning of the run has left the memory of single events.
  const since = () => fetch(`${url}/history?from=0&to=1000000000`).then((answer) => answer.json());
  const end = Date.now() + 30000;
  while ((await since()).has_events && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 200));
  const [x, y] = await browser.place('#overview', 0.14, 0.3);
  await browser.mouse('mousePressed', x, y);
  await browser.mouse('mouseMoved', x - 60, y);
  await browser.mouse('mouseReleased', x - 60, y);
  await browser.until('the beginning of the run', `Number(${DATA}.from) < 3e8 && Number(${DATA}.to) > 0`);
  await browser.until('its bins', `${DATA}.mode === 'bins' && Number(${DATA}.drawn) > 10`);
  const old = await view(browser);
  check('the strip scrolls back to the beginning, shown as bins', true, `${old.drawn} bins from ${old.from / 1e6} ms`);
}

// A line's values in a chart, from left to right.
const lines = (browser, chart) => browser.value(`JSON.parse(document.getElementById('${chart}').dataset.lines ?? '[]')`);
const LIMIT = "document.getElementById('limit')";

// Looked at again and again: what is steady is steady up to the right edge.
async function chartsHoldTheirLevel(browser) {
  const ends = { 'chart-kernels': [], 'chart-tasks': [] };
  await browser.until('lines in the charts', "JSON.parse(document.getElementById('chart-tasks').dataset.lines ?? '[[]]')[0].length > 20");
  for (let look = 0; look < 25; ++look) {
    for (const [chart, seen] of Object.entries(ends)) {
      const line = (await lines(browser, chart))[0];
      seen.push(Math.min(...line.slice(-8)));
    }
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  const throughput = ends['chart-tasks'];
  check('the throughput of a steady load does not fall at the right edge', Math.min(...throughput) > 130 && Math.max(...throughput) < 200,
    `${Math.min(...throughput)} to ${Math.max(...throughput)} tasks/s of 167`);
}

async function limitIsTold(browser) {
  await browser.until('the limit', `${LIMIT}.dataset.cause === 'stage'`);
  const text = await browser.value(`${LIMIT}.querySelector('.text').textContent`);
  check('the page says what limits the run', /^stage 'pre' is the limit \(\d+\.\d % busy, the kernels \d+\.\d %\): give it more threads$/.test(text), text);
}

// Names may be longer than there is room, and kernels of two devices may have one name.
async function labelsAreApart(browser) {
  const labels = JSON.parse(await browser.value(`${DATA}.labels`));
  const long = labels.find((label) => label.text === 'slow0 on a card of another rack');
  check('a long name of a device is shortened', /^slow0 on a .*…$/.test(long?.drawn ?? ''), long?.drawn);
  const wide = labels.filter((label) => label.right > 118);
  check('labels end where the rows begin', wide.length === 0, JSON.stringify(wide));
  const over = labels.filter((label, i) => i > 0 && label.top < labels[i - 1].bottom);
  check('no label lies on another one', over.length === 0, JSON.stringify(over));
  const legend = await browser.value("[...document.querySelectorAll('#chart-kernels .u-series .u-label')].map((label) => label.textContent).filter((text) => text)");
  check('the chart names the device where two kernels have one name',
    legend.includes('kernel A · sim0') && legend.includes('kernel A · slow0 on a card of another rack') && legend.includes('kernel B'), legend.join(' | '));
  const value = await browser.value("(({ height }, line) => height < 2 * line)(document.querySelector('#kernels .value').getBoundingClientRect(), 14)");
  check('a figure beside a long name is one line', value);
}

// A device that hangs: its run and the thread that waits for it have no event, and yet they show.
async function longRunsShow(browser) {
  const { server, url } = await startServer('held', 'hang');
  try {
    await browser.open(url, { width: 1400, height: 1000 });
    await browser.until('the limit', `${LIMIT}.dataset.cause === 'device'`);
    const text = await browser.value(`${LIMIT}.querySelector('.text').textContent`);
    check('a device that may hang is told', /^device 'slow0 on a card of another rack' may hang: a run has lasted \d+\.\d s, the longest before it 0\.0400 s$/.test(text), text);
    const kernel = "document.querySelector('#kernels .value').textContent";
    const stage = "document.querySelector('.row[data-stage=\"execute\"] .value').textContent";
    check('a run that goes on counts', (await browser.value(kernel)) === '100 %', await browser.value(kernel));
    check('a thread that works counts', (await browser.value(stage)) === '100 %', await browser.value(stage));
    await browser.until('lines of two seconds', "(JSON.parse(document.getElementById('chart-stages').dataset.lines ?? '[]')[0] ?? []).slice(-30).filter((value) => value === 1).length === 30");
    const [kernels, stages, queues] = [await lines(browser, 'chart-kernels'), await lines(browser, 'chart-stages'), await lines(browser, 'chart-queues')];
    check('its line is at 100 % up to the right edge', Math.min(...kernels[0].slice(-30)) === 100);
    check('so is the line of the stage', Math.min(...stages[0].slice(-30)) === 1, stages[0].slice(-3).join(', '));
    check('a queue keeps its level where nothing happens', Math.min(...queues[0].slice(-30)) === 1, queues[0].slice(-3).join(', '));
    const rows = JSON.parse(await browser.value(`${DATA}.rows`));
    const slow = rows['slow0 on a card of another rack kernel A: tasks'];
    check('the timeline draws what goes on', slow > 0, slow);
    await labelsAreApart(browser);
    if (folder) {
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, 'hanging.png'), await browser.screenshot());
    }
  } finally {
    server.stdin.end();
  }
}

async function threadsTakeEffect(browser, url) {
  await browser.click('#live');
  const stage = '.row[data-stage="pre"]';
  const utilisation = "parseFloat(document.querySelector('#kernels .value').textContent)";
  const before = await browser.value(utilisation);
  for (const threads of [2, 3, 4]) {
    await browser.click(`${stage} .stepper button:last-child`);
    await browser.until(`${threads} threads`, `document.querySelector('${stage}').dataset.threads === '${threads}'`);
  }
  const state = await fetch(`${url}/state`).then((answer) => answer.json());
  check('the pipeline has the threads that were clicked', state.stages[0].threads === 4, state.stages[0].threads);
  await browser.until('the kernels as the limit', `${LIMIT}.dataset.cause === 'kernels'`);
  await browser.until('busier kernels', `${utilisation} > 90`);
  check('more threads keep the kernels busy', before < 60, `${before} % before, ${await browser.value(utilisation)} % after`);
}

async function otherControlsWork(browser, url) {
  const state = () => fetch(`${url}/state`).then((answer) => answer.json());
  await browser.click('#record');
  await browser.until('recording off', "document.getElementById('record').getAttribute('aria-pressed') === 'false'");
  check('recording is switched off', (await state()).snapshot.recording === false);
  await browser.click('#record');
  await browser.until('recording on', "document.getElementById('record').getAttribute('aria-pressed') === 'true'");
  await browser.value("(() => { const select = document.querySelector('#choices select'); select.value = 'auto'; select.onchange(); })()");
  await browser.until('the choice', "document.querySelector('#choices select').value === 'auto'");
  // The select shows it at once; the pipeline has it when the request has come there.
  const chosen = async () => (await state()).choices[0].chosen;
  for (let look = 0; look < 100 && (await chosen()) !== 'auto'; ++look) await new Promise((resolve) => setTimeout(resolve, 50));
  check('a choice reaches the pipeline', (await chosen()) === 'auto');
}

async function cardsAreDrawn(browser) {
  const colours = await browser.value("[...document.querySelectorAll('#cards .core')].map((core) => core.style.background)");
  check('every core of the card is drawn', colours.length === 16, colours.length);
  check('cores of a tenant have one colour, of two tenants two, free ones none',
    new Set(colours.slice(0, 4)).size === 1 && colours[4] === colours[5] && colours[4] !== colours[0] && colours[7] === '', colours.slice(0, 8).join(' | '));
  const reserved = await browser.value("[...document.querySelectorAll('#cards .reserved')].map((core) => core.title).join()");
  check('a core that somebody is linked for says so', reserved.startsWith('core 6: second, being linked'), reserved);
  const rows = await browser.value("[...document.querySelectorAll('#cards tr')].map((row) => row.textContent)");
  const cards = await browser.value("[...document.querySelectorAll('#cards .onecard')].map((card) => [card.querySelectorAll('.core').length, card.querySelectorAll('.group').length, ...[...card.querySelectorAll('.meter')].map((meter) => meter.title.split(';')[0])])");
  const ofCard = (card) => [8, 2, ...[0, 1].flatMap((group) => ['channel', 'broadcast', 'ring'].map((name) => `${name} ${2 * card + group}`)),
    `network out ${card}`, `network in ${card}`];
  check('each card has its cores, channels, buses, ring links and network ports', JSON.stringify(cards) === JSON.stringify([ofCard(0), ofCard(1)]), JSON.stringify(cards));
  await browser.until('figures of the parts', "[...document.querySelectorAll('#cards .core, #cards .meter')].every((part) => part.dataset.busy)");
  const busy = await browser.value("['.core', '.meter'].map((parts) => [...document.querySelectorAll(`#cards ${parts}`)].map((part) => part.dataset.busy).join())");
  check('each core says how busy it is', busy[0] === [...Array(16).keys()].map((core) => `${(5 * core).toFixed(1)} %`).join(), busy[0]);
  const ofGroup = (group) => [10, 20, 30].map((percent) => `${percent}.${group} %`);
  check('each channel, bus, link and port says how busy it is',
    busy[1] === [...ofGroup(0), ...ofGroup(1), '40.0 %', '50.0 %', ...ofGroup(2), ...ofGroup(3), '40.1 %', '50.1 %'].join(), busy[1]);
  check('each tenant has a row with its networks', rows.length === 3 && rows[1].includes('firstresnet50.onnx4'), rows.join(' | '));
}

async function pictures(browser) {
  mkdirSync(folder, { recursive: true });
  const take = async (name) => {
    await new Promise((resolve) => setTimeout(resolve, 700));
    writeFileSync(join(folder, `${name}.png`), await browser.screenshot());
  };
  await new Promise((resolve) => setTimeout(resolve, 2000));
  await take('two_seconds');
  await browser.value("document.querySelector('#spans button').click()");
  await take('dashboard');
  await browser.theme(true);
  await take('dashboard_dark');
  await browser.drag('#timeline', 0.5, 0.6);
  const [x, y] = await browser.place('#timeline', 0.45, 0.3);
  await browser.mouse('mouseMoved', x, y, { buttons: 0, button: 'none' });
  await take('zoomed');
  await browser.theme(false);
  await browser.drag('#overview', 0.98, 0.2, 0.3);
  for (let i = 0; i < 4; ++i) await browser.click('#zoom-out');
  await take('scrolled_back');
}

async function main() {
  const { server, url } = await startServer();
  let browser;
  try {
    browser = await Browser.start(program);
    await browser.open(url, { width: 1400, height: 980 });
    await dataArrives(browser);
    await cardsAreDrawn(browser);
    await limitIsTold(browser);
    await chartsHoldTheirLevel(browser);
    await zoomWorks(browser);
    await pauseWorks(browser);
    await scrollBackWorks(browser, url);
    await threadsTakeEffect(browser, url);
    await otherControlsWork(browser, url);
    if (folder) await pictures(browser);
    await longRunsShow(browser);
    check('the page had no error', browser.errors.length === 0, browser.errors.join('\n') || undefined);
  } finally {
    if (browser && failed > 0 && folder) writeFileSync(join(folder, 'failed.png'), await browser.screenshot());
    await browser?.close();
    server.stdin.end();
  }
}

main().then(() => process.exit(failed === 0 ? 0 : 1), (error) => {
  console.log(`FAILED ${error.message}`);
  process.exit(1);
});
