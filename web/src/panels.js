// Figures beside the charts: tiles, bars of kernels, stages with their threads, queues, latency.

import { colorOf } from './canvas.js';
import { bytes, count, figure, percent, time } from './format.js';

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// Children of a parent by key: made once, kept while their key is there.
class Keyed {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.parts = new Map();
  }

  update(items, keyOf, fill) {
    const seen = new Set();
    items.forEach((item, index) => {
      const key = keyOf(item);
      seen.add(key);
      if (!this.parts.has(key)) {
        const part = this.make(item);
        this.parts.set(key, part);
        this.parent.append(part.root);
      }
      fill(this.parts.get(key), item, index);
    });
    for (const [key, part] of this.parts) {
      if (seen.has(key)) continue;
      part.root.remove();
      this.parts.delete(key);
    }
  }
}

// name ........ value
// [bar            ]
// left        right
function barRow() {
  const name = element('span', { className: 'name' });
  const value = element('span', { className: 'value' });
  const fill = element('div');
  const left = element('span');
  const right = element('span');
  const root = element('div', { className: 'row' },
    element('div', { className: 'head' }, name, value),
    element('div', { className: 'bar' }, fill),
    element('div', { className: 'detail' }, left, right));
  return { root, name, value, fill, left, right };
}

function setBar(row, share, colour) {
  row.fill.style.width = `${Math.min(share, 1) * 100}%`;
  row.fill.style.background = colour;
}

// How long a run takes; of one that has lasted far longer than that, how long it has.
function runText(source, now) {
  const lasted = source.running_since_ns >= 0 ? now - source.running_since_ns : 0;
  if (lasted > Math.max(1e9, 2 * source.run.max)) return `running for ${time(lasted)}`;
  return `${time(source.run.median)} a run`;
}

export class Panels {
  constructor(store, control) {
    this.store = store;
    this.control = control;
    const by = (id) => document.getElementById(id);
    this.tiles = new Keyed(by('tiles'), () => {
      const label = element('div', { className: 'label' });
      const value = element('div', { className: 'value' });
      return { root: element('div', { className: 'tile' }, label, value), label, value };
    });
    this.kernels = new Keyed(by('kernels'), barRow);
    this.stages = new Keyed(by('stages'), (source) => this.makeStage(source));
    this.choices = new Keyed(by('choices'), (choice) => this.makeChoice(choice));
    this.queues = new Keyed(by('queues'), barRow);
    this.latency = by('latency').appendChild(element('table'));
  }

  makeStage(source) {
    const row = barRow();
    const fewer = element('button', { type: 'button', textContent: '−', ariaLabel: `Fewer threads for ${source.name}` });
    const more = element('button', { type: 'button', textContent: '+', ariaLabel: `More threads for ${source.name}` });
    const number = element('span', { className: 'number' });
    const stepper = element('span', { className: 'stepper', title: 'Threads' }, fewer, number, more);
    row.right.append(stepper);
    row.root.dataset.stage = source.name;
    const part = { ...row, fewer, more, number, stepper, threads: source.threads };
    fewer.onclick = () => this.control({ stage: source.name, threads: part.threads - 1 });
    more.onclick = () => this.control({ stage: source.name, threads: part.threads + 1 });
    return part;
  }

  makeChoice(choice) {
    const select = element('select', { ariaLabel: choice.name },
      ...choice.allowed.map((position) => element('option', { value: position, textContent: position })));
    select.onchange = () => this.control({ choice: choice.name, position: select.value });
    const root = element('div', { className: 'row' },
      element('div', { className: 'head' }, element('span', { className: 'name', textContent: choice.name }),
        element('span', { className: 'value' }, select)));
    return { root, select };
  }

  draw() {
    const state = this.store.state;
    if (!state) return;
    this.drawTiles(state.snapshot);
    this.drawLimit(state.limit);
    this.kernels.update(this.store.sources('kernel'), (s) => s.id, (row, source, index) => {
      row.name.textContent = source.device ? `${source.name} · ${source.device}` : source.name;
      row.value.textContent = percent(source.utilisation);
      setBar(row, source.utilisation, colorOf(index));
      row.left.textContent = `${runText(source, state.snapshot.at_ns)} · ${figure(source.runs_per_second)}/s`;
      row.right.textContent = source.faults > 0 ? `${source.faults} faults`
        : source.bytes_in + source.bytes_out > 0
          ? `in ${bytes(source.bytes_in_per_second)}/s · out ${bytes(source.bytes_out_per_second)}/s` : '';
    });
    this.drawStages(state);
    this.choices.update(state.choices, (c) => c.name, (part, choice) => {
      if (document.activeElement !== part.select) part.select.value = choice.chosen;
    });
    this.queues.update(this.store.sources('queue'), (s) => s.id, (row, source, index) => {
      row.name.textContent = source.name;
      row.value.textContent = source.capacity > 0 ? `${source.depth} of ${source.capacity}` : source.depth;
      setBar(row, source.capacity > 0 ? source.depth / source.capacity : 0, colorOf(index + 2));
      row.left.textContent = `at most ${source.depth_max} in the last second`;
    });
    this.drawLatency(state.snapshot.tasks);
  }

  drawLimit({ cause, text }) {
    const line = document.getElementById('limit');
    line.dataset.cause = cause;
    line.querySelector('.text').textContent = text;
    line.hidden = false;
  }

  drawTiles(snapshot) {
    const tasks = snapshot.tasks;
    const kernels = this.store.sources('kernel');
    const busy = kernels.reduce((sum, k) => sum + k.utilisation, 0) / Math.max(kernels.length, 1);
    const rate = (key) => snapshot.sources.reduce((sum, s) => sum + s[key], 0);
    const tiles = [
      ['Throughput', figure(tasks.per_second), 'tasks/s'],
      ['Kernels busy', percent(busy), kernels.length > 1 ? `of ${kernels.length}` : ''],
      ['Latency, median', time(tasks.latency_late.median), `p99 ${time(tasks.latency_late.p99)}`],
      ['In flight', count(tasks.in_flight), 'tasks'],
      ['To devices', `${bytes(rate('bytes_in_per_second'))}/s`, ''],
      ['From devices', `${bytes(rate('bytes_out_per_second'))}/s`, ''],
      ['Done', count(tasks.ok), tasks.failed + tasks.cancelled > 0 ? `${count(tasks.failed)} failed, ${count(tasks.cancelled)} cancelled` : 'tasks'],
    ];
    if (snapshot.dropped > 0) tiles.push(['Events lost', count(snapshot.dropped), 'rings were full']);
    this.tiles.update(tiles, (tile) => tile[0], (part, [label, value, unit]) => {
      part.label.textContent = label;
      part.value.replaceChildren(value, ' ', element('small', { textContent: unit }));
      part.root.classList.toggle('alarm', label === 'Events lost');
    });
  }

  drawStages(state) {
    const controls = new Map(state.stages.map((stage) => [stage.name, stage]));
    this.stages.update(this.store.sources('stage'), (s) => s.id, (part, source, index) => {
      const stage = controls.get(source.name);
      part.threads = stage ? stage.threads : source.threads;
      part.name.textContent = source.name;
      part.value.textContent = percent(source.utilisation);
      setBar(part, source.utilisation, colorOf(index + 2));
      part.left.textContent = `${runText(source, state.snapshot.at_ns)}, waited ${time(source.waited.median)}`;
      part.number.textContent = part.threads;
      part.root.dataset.threads = part.threads;
      part.fewer.disabled = !stage || part.threads <= 1;
      part.more.disabled = !stage || part.threads >= stage.threads_max;
    });
  }

  drawLatency(tasks) {
    const rows = [['min', 'min'], ['mean', 'mean'], ['median', 'median'], ['p90', 'p90'], ['p95', 'p95'], ['p99', 'p99'], ['max', 'max']];
    this.latency.replaceChildren(
      element('tr', {}, element('td'), element('td', { className: 'quiet', textContent: 'last 10 s' }), element('td', { className: 'quiet', textContent: 'whole run' })),
      ...rows.map(([label, key]) => element('tr', {}, element('td', { textContent: label }),
        element('td', { textContent: time(tasks.latency_late[key]) }), element('td', { textContent: time(tasks.latency[key]) }))));
  }
}
