// The page of `tessera cluster watch`: asks for the pool each second and draws it.

import { color, colorOf } from './canvas.js';
import { bytes, count, figure } from './format.js';
import { element } from './panels.js';
import { PoolMap } from './pool_map.js';

const PERIOD_MS = 1000;
const ROWS = 20; // of tables that could be as long as the pool
const COLOURED = 8;

const by = (id) => document.getElementById(id);
const map = new PoolMap(by('map'));
let state = null;
let before = new Map(); // figures of allocations when they were last asked for
let rates = new Map(); // of allocations, a second

const keyOf = (alloc) => `${alloc.tenant}/${alloc.alloc}/${alloc.epoch}`;

// The tenants with the most cores have a colour each.
function tenantsOf(allocs) {
  const tenants = new Map();
  for (const alloc of allocs) {
    const one = tenants.get(alloc.tenant) ?? { name: alloc.tenant, allocs: 0, cores: 0, waiting: 0, runs: 0, bytes: 0 };
    const rate = rates.get(keyOf(alloc));
    one.allocs += 1;
    one.cores += alloc.cores.length;
    one.waiting += alloc.figures?.waiting ?? 0;
    one.runs += rate?.runs ?? 0;
    one.bytes += (rate?.bytes_in ?? 0) + (rate?.bytes_out ?? 0);
    tenants.set(alloc.tenant, one);
  }
  return [...tenants.values()].sort((a, b) => b.cores - a.cores || a.name.localeCompare(b.name));
}

function takeRates(answer) {
  const seconds = state ? (answer.unix_ms - state.unix_ms) / 1000 : 0;
  const now = new Map();
  for (const alloc of answer.status.allocs ?? []) if (alloc.figures) now.set(keyOf(alloc), alloc.figures);
  if (seconds > 0) {
    rates = new Map();
    for (const [key, figures] of now) {
      const old = before.get(key);
      if (!old) continue;
      rates.set(key, Object.fromEntries(['runs', 'bytes_in', 'bytes_out', 'busy_us'].map((name) => [name, Math.max(0, figures[name] - old[name]) / seconds])));
    }
  }
  before = now;
}

function cardsOf(status) {
  const filter = by('filter').value.trim().toLowerCase();
  const cards = new Map();
  for (const card of status.pool ?? []) {
    if (filter && !card.node.toLowerCase().includes(filter)) continue;
    cards.set(`${card.node}/${card.card}`, { ...card, groups: card.groups ?? 1, owners: [] });
  }
  for (const alloc of status.allocs ?? []) {
    const card = cards.get(`${alloc.node}/${alloc.card}`);
    if (card) alloc.cores.forEach((core) => (card.owners[core] = alloc));
  }
  return [...cards.values()];
}

function fillTable(table, titles, rows, more) {
  const cell = (tag, value) => (value instanceof Node ? element(tag, {}, value) : element(tag, { textContent: value }));
  const lines = rows.map((row) => element('tr', {}, ...row.map((value) => cell('td', value))));
  if (more > 0) lines.push(element('tr', {}, element('td', { textContent: `and ${count(more)} more`, className: 'quiet', colSpan: titles.length })));
  table.replaceChildren(element('tr', {}, ...titles.map((title) => cell('th', title))), ...lines);
  table.dataset.rows = rows.length;
}

function named(name, colour) {
  const mark = element('i');
  mark.style.background = colour;
  return element('span', { title: name }, mark, name);
}

function drawTables(status, tenants, colours) {
  const allocs = status.allocs ?? [];
  fillTable(by('tenants'), ['tenant', 'allocations', 'cores', 'runs/s', 'bytes/s'],
    tenants.slice(0, ROWS).map((one) => [named(one.name, colours(one.name)), count(one.allocs), count(one.cores), figure(one.runs), bytes(one.bytes)]),
    tenants.length - ROWS);
  const queues = allocs.filter((alloc) => alloc.figures).sort((a, b) => b.figures.waiting - a.figures.waiting || b.figures.runs - a.figures.runs);
  fillTable(by('queues'), ['allocation', 'waiting', 'runs', 'failed', 'busy'],
    queues.slice(0, ROWS).map((alloc) => [named(alloc.alloc, colours(alloc.tenant)), count(alloc.figures.waiting), count(alloc.figures.runs),
      count(alloc.figures.failures), `${Math.round(Math.min(100, (rates.get(keyOf(alloc))?.busy_us ?? 0) / 1e4))} %`]),
    queues.length - ROWS);
  const nodes = new Map();
  for (const alloc of allocs) {
    const rate = rates.get(keyOf(alloc));
    if (!rate) continue;
    const one = nodes.get(alloc.node) ?? { in: 0, out: 0, runs: 0 };
    nodes.set(alloc.node, { in: one.in + rate.bytes_in, out: one.out + rate.bytes_out, runs: one.runs + rate.runs });
  }
  const busiest = [...nodes].sort(([, a], [, b]) => b.in + b.out - a.in - a.out);
  fillTable(by('bandwidth'), ['node', 'in', 'out', 'runs/s'],
    busiest.slice(0, ROWS).map(([node, one]) => [node, bytes(one.in), bytes(one.out), figure(one.runs)]), busiest.length - ROWS);
  const waiting = allocs.filter((alloc) => alloc.state !== 'placed');
  fillTable(by('waiting'), ['allocation', 'cores wanted', 'state'],
    waiting.slice(0, ROWS).map((alloc) => [named(alloc.alloc, colours(alloc.tenant)), count(alloc.cores_wanted), alloc.state]), waiting.length - ROWS);
}

function drawTiles(status, tenants) {
  const pool = status.pool ?? [];
  const cores = pool.reduce((sum, card) => sum + card.cores, 0);
  const free = pool.reduce((sum, card) => sum + card.free, 0);
  const sum = (name) => [...rates.values()].reduce((all, rate) => all + rate[name], 0);
  const nodes = status.nodes ?? [...new Set(pool.map((card) => card.node))];
  const draining = pool.filter((card) => card.draining).length;
  const tiles = [['Nodes', count(nodes.length), ''], ['Cores', count(cores), `${count(free)} free`],
    ['Allocations', count((status.allocs ?? []).length), `${count(tenants.length)} tenants`],
    ['Draining', count(draining), 'cards'], ['Runs', figure(sum('runs')), 'a second'],
    ['To nodes', bytes(sum('bytes_in')), 'a second'], ['From nodes', bytes(sum('bytes_out')), 'a second']];
  by('tiles').replaceChildren(...tiles.map(([label, value, unit]) => element('div', { className: 'tile' },
    element('div', { className: 'label', textContent: label }), element('div', { className: 'value' }, `${value} `, element('small', { textContent: unit })))));
}

let newestEvent = '';
function drawEvents(events) {
  const newest = events.length ? `${events.at(-1).unix_ms}/${events.at(-1).number}` : '';
  if (newest === newestEvent) return;
  newestEvent = newest;
  by('events').replaceChildren(...[...events].reverse().map((event) => element('div', {},
    ...[new Date(event.unix_ms).toISOString().slice(11, 23), event.kind, event.tenant, event.text].map((text) => element('span', { textContent: text, title: text })))));
  by('events').dataset.rows = events.length;
}

function draw() {
  const { status, events } = state;
  const tenants = tenantsOf(status.allocs ?? []);
  const places = new Map(tenants.slice(0, COLOURED).map((one, index) => [one.name, index]));
  const colours = (tenant) => (places.has(tenant) ? colorOf(places.get(tenant)) : color('quiet'));
  by('master').textContent = status.master ? `master ${status.master} · epoch ${status.epoch} · ${status.store}` : '';
  by('problem').hidden = !state.error;
  by('problem').textContent = state.error;
  const cards = cardsOf(status);
  by('shown').textContent = `${count(cards.length)} cards`;
  map.show(cards, colours);
  const legend = tenants.slice(0, COLOURED).map((one) => named(one.name, colours(one.name)));
  if (tenants.length > COLOURED) legend.push(named(`${count(tenants.length - COLOURED)} more`, color('quiet')));
  by('legend').replaceChildren(...legend);
  drawTiles(status, tenants);
  drawTables(status, tenants, colours);
  drawEvents(events);
  document.body.dataset.unixMs = state.unix_ms;
}

async function ask() {
  try {
    const response = await fetch('/state');
    if (!response.ok) throw new Error(await response.text());
    const answer = await response.json();
    if (!state || answer.unix_ms !== state.unix_ms || answer.error !== state.error) {
      takeRates(answer);
      state = answer;
      draw();
    }
    by('connection').textContent = 'connected';
    by('connection').className = 'badge on';
  } catch {
    by('connection').textContent = 'no connection';
    by('connection').className = 'badge off';
  }
  setTimeout(ask, PERIOD_MS);
}

by('filter').addEventListener('input', () => state && draw());
by('map').addEventListener('pointermove', (event) => {
  const box = by('map').getBoundingClientRect();
  const text = state && map.at(event.clientX - box.left, event.clientY - box.top);
  by('tooltip').hidden = !text;
  by('tooltip').textContent = text ?? '';
  by('tooltip').style.left = `${Math.min(event.clientX + 14, innerWidth - by('tooltip').offsetWidth - 8)}px`;
  by('tooltip').style.top = `${event.clientY + 16}px`;
});
by('map').addEventListener('pointerleave', () => (by('tooltip').hidden = true));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => state && draw());
ask();
