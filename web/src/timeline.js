// The live chart: for each kernel a row of DDR writes, a row of task lines with a mark where each
// begins, and a row of DDR reads; a row for each stage, its threads side by side.
//
//   kernel A   ● ● ●  ●         DDR writes
//              ○━━━━ ○━━━ ○━━   tasks
//                  ■    ■       DDR reads
//
// What belongs to no kernel (weights) has a row of the device in front of them.
//
// Where single events are no longer kept, or are too many, rows show shares of time instead.

import { Canvas, color, colorOf, shortened } from './canvas.js';
import { bytes, moment, percent, time } from './format.js';
import { Kind } from './store.js';

const LABELS = 118;
const AXIS = 22;
const TRANSFER_ROW = 18;
const TASK_ROW = 30;
const STAGE_ROW = 26;
const GAP = 8;
const LANES_MAX = 8;
const ROW_NAMES = { [Kind.in]: 'writes', [Kind.kernel]: 'tasks', [Kind.out]: 'reads', [Kind.stage]: 'stage' };
const WHOLE = -1; // in place of the index of a kernel: the device as a whole

function colorOfRow(row) {
  if (row.index === WHOLE) return color('quiet');
  return colorOf(row.kind === Kind.stage ? row.index + 2 : row.index);
}

// Kernels take turns with the marks of figures: circle and square, cross and plus.
const BEGIN_MARKS = [circle, cross];
const READ_MARKS = [square, plus];

function circle(c, x, y, r) {
  c.beginPath();
  c.arc(x, y, r, 0, 2 * Math.PI);
  c.fillStyle = color('card');
  c.fill();
  c.stroke();
}
function dot(c, x, y, r) {
  c.beginPath();
  c.arc(x, y, r * 0.7, 0, 2 * Math.PI);
  c.fill();
}
function square(c, x, y, r) {
  c.fillRect(x - r * 0.7, y - r * 0.7, r * 1.4, r * 1.4);
}
function strokes(c, lines) {
  c.beginPath();
  for (const [x0, y0, x1, y1] of lines) {
    c.moveTo(x0, y0);
    c.lineTo(x1, y1);
  }
  c.stroke();
}
function cross(c, x, y, r) {
  strokes(c, [[x - r, y - r, x + r, y + r], [x - r, y + r, x + r, y - r]]);
}
function plus(c, x, y, r) {
  strokes(c, [[x - r, y, x + r, y], [x, y - r, x, y + r]]);
}

export class Timeline {
  constructor(element, store) {
    this.element = element;
    this.store = store;
    this.canvas = new Canvas(element);
    this.hits = [];
    this.selection = null; // [x0, x1] while dragging
  }

  // Rows from top to bottom: by device what moved for all of its kernels, then its kernels; then the
  // stages.
  layout() {
    const rows = [];
    let y = AXIS;
    const add = (source, index, kind, height) => {
      rows.push({ source, index, kind, y, height });
      y += height;
    };
    const kernels = this.store.sources('kernel');
    const devices = this.store.sources('device');
    for (const device of new Set(kernels.map((kernel) => kernel.device))) {
      const whole = devices.find((source) => source.name === device);
      y += GAP;
      if (whole?.bytes_in > 0) add(whole, WHOLE, Kind.in, TRANSFER_ROW);
      if (whole?.bytes_out > 0) add(whole, WHOLE, Kind.out, TRANSFER_ROW);
      kernels.forEach((kernel, index) => {
        if (kernel.device !== device) return;
        if (rows.length > 0) y += GAP;
        add(kernel, index, Kind.in, TRANSFER_ROW);
        add(kernel, index, Kind.kernel, TASK_ROW);
        add(kernel, index, Kind.out, TRANSFER_ROW);
      });
    }
    this.store.sources('stage').forEach((source, index) => {
      y += GAP / 2;
      add(source, index, Kind.stage, STAGE_ROW);
    });
    return { rows, height: Math.max(y + 6, 120) };
  }

  x(ns) {
    return LABELS + ((ns - this.range.from) / (this.range.to - this.range.from)) * (this.canvas.width - LABELS);
  }
  ns(x) {
    return this.range.from + ((x - LABELS) / (this.canvas.width - LABELS)) * (this.range.to - this.range.from);
  }

  draw() {
    const { rows, height } = this.layout();
    const c = this.canvas.begin(height);
    this.range = this.store.range();
    this.hits = [];
    this.drawn = 0;
    this.drawnRows = {};
    this.drawStripes(c, rows);
    this.drawAxis(c, height);
    c.save();
    c.beginPath();
    c.rect(LABELS, 0, this.canvas.width - LABELS, height);
    c.clip();
    const events = this.store.rowsFor(this.range);
    for (const row of rows) {
      const before = this.drawn;
      if (events) this.drawEvents(c, row, events);
      else this.drawBins(c, row);
      this.drawnRows[`${row.source.device} ${row.source.name}: ${ROW_NAMES[row.kind]}`.trim()] = this.drawn - before;
    }
    if (events) this.drawMarks(c, events, height);
    this.drawEnd(c, height);
    if (this.selection) {
      c.fillStyle = color('accent');
      c.globalAlpha = 0.18;
      const [x0, x1] = this.selection;
      c.fillRect(Math.min(x0, x1), AXIS, Math.abs(x1 - x0), height - AXIS);
      c.globalAlpha = 1;
    }
    c.restore();
    this.drawLabels(c, rows);
    this.note(events !== null);
  }

  // What a test or a script wants to know of the picture.
  note(single) {
    const data = this.element.dataset;
    data.from = Math.round(this.range.from);
    data.to = Math.round(this.range.to);
    data.mode = single ? 'events' : 'bins';
    data.drawn = this.drawn;
    data.rows = JSON.stringify(this.drawnRows); // from top to bottom
    data.labels = JSON.stringify(this.labels); // likewise
  }

  drawStripes(c, rows) {
    for (const row of rows) {
      c.fillStyle = color('stripe');
      c.fillRect(LABELS, row.y + 1, this.canvas.width - LABELS, row.height - 2);
    }
  }

  drawAxis(c, height) {
    const span = this.range.to - this.range.from;
    const rough = span / Math.max(2, (this.canvas.width - LABELS) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
    c.font = '11px system-ui, sans-serif';
    c.textAlign = 'center';
    c.textBaseline = 'middle';
    for (let t = Math.ceil(this.range.from / step) * step; t <= this.range.to; t += step) {
      const x = Math.round(this.x(t)) + 0.5;
      c.strokeStyle = color('line');
      strokes(c, [[x, AXIS - 4, x, height]]);
      c.fillStyle = color('quiet');
      if (t >= 0 && x > LABELS + 24 && x < this.canvas.width - 24) c.fillText(moment(t, step * 10), x, 9);
    }
  }

  // A kernel has its device below its name: kernels of several devices have the same names.
  drawLabels(c, rows) {
    c.textAlign = 'left';
    c.textBaseline = 'middle';
    this.labels = [];
    for (const row of rows) {
      const middle = row.y + row.height / 2;
      const named = row.kind === Kind.kernel || row.kind === Kind.stage;
      if (named) {
        c.fillStyle = colorOfRow(row);
        c.fillRect(0, middle - 6, 3, 12);
      }
      const moved = row.kind === Kind.in ? 'DDR writes' : 'DDR reads';
      const text = named ? row.source.name : row.index === WHOLE ? `${row.source.name}: ${moved}` : moved;
      const device = row.kind === Kind.kernel ? row.source.device : '';
      this.drawLabel(c, text, device ? middle - 6 : middle, { size: named ? 12 : 11, weight: named ? '600 ' : '', ink: named ? 'text' : 'quiet' });
      if (device) this.drawLabel(c, device, middle + 7, { size: 10, weight: '', ink: 'quiet' });
    }
  }

  drawLabel(c, text, y, { size, weight, ink }) {
    c.font = `${weight}${size}px system-ui, sans-serif`;
    c.fillStyle = color(ink);
    const drawn = shortened(c, text, LABELS - 16);
    c.fillText(drawn, 9, y);
    this.labels.push({ text, drawn, top: y - size / 2, bottom: y + size / 2, right: 9 + c.measureText(drawn).width });
  }

  // Calls draw(event, x0, x1) for what is in view. Ends grow along a row, but for small swaps.
  *visible(events) {
    let low = 0;
    let high = events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (events[middle].end < this.range.from) low = middle + 1;
      else high = middle;
    }
    for (let i = Math.max(0, low - 16); i < events.length; ++i) {
      const event = events[i];
      if (event.end >= this.range.from && event.begin <= this.range.to) yield event;
    }
  }

  drawEvents(c, row, events) {
    const list = [...this.visible(events.get(row.source.id, row.kind))];
    this.drawn += list.length;
    // Marks are as large as their distance allows; where they would touch there are only lines.
    const distance = (this.canvas.width - LABELS) / Math.max(list.length, 1);
    const radius = Math.min(distance * 0.3, 4.5);
    if (row.kind === Kind.stage) this.drawStage(c, row, list);
    else if (row.kind === Kind.kernel) this.drawTasks(c, row, list, radius);
    else this.drawTransfers(c, row, list, Math.min(radius * 1.4, 4));
  }

  // What goes on has no event yet: the state says since when.
  withRunning(row, list) {
    if (!this.store.view.following) return list;
    const now = Math.max(this.store.now(), this.store.state.snapshot.at_ns);
    const ended = list.length > 0 ? Math.max(...list.map((event) => event.end)) : -1;
    const running = row.source.running.filter((begin) => begin < this.range.to && (row.kind === Kind.stage || begin >= ended));
    return [...list, ...running.map((begin) => ({ begin, end: now, running: true }))];
  }

  drawTasks(c, row, list, radius) {
    const middle = row.y + row.height / 2;
    c.fillStyle = c.strokeStyle = colorOfRow(row);
    c.lineWidth = 1.6;
    for (const event of this.withRunning(row, list)) {
      const x0 = this.x(event.begin);
      const x1 = Math.max(this.x(event.end), x0 + 1);
      c.globalAlpha = event.running ? 0.45 : 0.85;
      c.fillRect(x0 + 0.5, middle - 4, Math.max(x1 - x0 - 1, 0.6), 8);
      c.globalAlpha = 1;
      if (radius > 2.4) this.markBegin(c, row, x0, middle, radius);
      this.hits.push({ x0, x1, y: row.y, height: row.height, event, row });
    }
    c.lineWidth = 1;
  }

  markBegin(c, row, x, middle, radius) {
    c.strokeStyle = colorOfRow(row);
    const mark = BEGIN_MARKS[row.index % 2];
    if (mark === cross) {
      c.lineWidth = 4;
      c.strokeStyle = color('stripe');
      cross(c, x, middle, radius);
      c.lineWidth = 1.8;
      c.strokeStyle = colorOfRow(row);
    }
    mark(c, x, middle, radius);
    c.fillStyle = c.strokeStyle = colorOfRow(row);
  }

  drawTransfers(c, row, list, radius) {
    const middle = row.y + row.height / 2;
    c.fillStyle = c.strokeStyle = colorOfRow(row);
    c.lineWidth = 1.6;
    const mark = row.kind === Kind.in ? dot : READ_MARKS[row.index === WHOLE ? 0 : row.index % 2];
    for (const event of list) {
      const x0 = this.x(event.begin);
      const x1 = Math.max(this.x(event.end), x0 + 1);
      c.globalAlpha = 0.35;
      c.fillRect(x0, middle - 3, x1 - x0, 6);
      c.globalAlpha = radius > 1.5 ? 1 : 0.6;
      mark(c, x0, middle, Math.max(radius, 1.5));
      c.globalAlpha = 1;
      this.hits.push({ x0: x0 - 3, x1: Math.max(x1, x0 + 3), y: row.y, height: row.height, event, row });
    }
    c.lineWidth = 1;
  }

  // Runs that overlap lie in lanes, the first that is free.
  drawStage(c, row, list) {
    const free = [];
    const placed = [];
    for (const event of this.withRunning(row, list).sort((a, b) => a.begin - b.begin)) {
      let lane = free.findIndex((end) => end <= event.begin);
      if (lane < 0) lane = free.length < LANES_MAX ? free.push(0) - 1 : LANES_MAX - 1;
      free[lane] = event.end;
      placed.push([event, lane]);
    }
    const lanes = Math.max(free.length, Math.min(row.source.threads, LANES_MAX), 1);
    const height = (row.height - 4) / lanes;
    c.fillStyle = colorOfRow(row);
    for (const [event, lane] of placed) {
      const x0 = this.x(event.begin);
      const x1 = Math.max(this.x(event.end), x0 + 0.8);
      const y = row.y + 2 + lane * height;
      c.globalAlpha = event.running ? 0.4 : 0.75;
      c.fillRect(x0, y + 0.5, Math.max(x1 - x0 - 0.6, 0.6), Math.max(height - 1, 1));
      this.hits.push({ x0, x1, y, height, event, row });
    }
    c.globalAlpha = 1;
  }

  // Shares of time in place of single events: the fuller a bin, the stronger its colour.
  drawBins(c, row) {
    const past = this.store.past;
    const bins = past?.bins[row.source.id];
    if (!bins) return;
    const column = { [Kind.in]: 'in_ns', [Kind.out]: 'out_ns' }[row.kind] ?? 'busy';
    const values = bins[column];
    if (!values) return;
    const threads = row.kind === Kind.stage ? Math.max(row.source.threads, 1) : 1;
    c.fillStyle = colorOfRow(row);
    values.forEach((busy, i) => {
      if (busy === 0) return;
      const begin = (past.first_bin + i) * past.bin_ns;
      const length = Math.min(past.bin_ns, past.until - begin); // the newest may not be over
      const x0 = this.x(begin);
      const x1 = this.x(begin + length);
      if (x1 < LABELS || x0 > this.canvas.width) return;
      const share = Math.min(busy / length / threads, 1);
      // Transfers are short: their root shows more of them.
      const shown = row.kind === Kind.in || row.kind === Kind.out ? Math.sqrt(share) : share;
      c.globalAlpha = 0.25 + 0.65 * shown;
      const height = Math.max((row.height - 6) * shown, 1.5);
      c.fillRect(x0, row.y + row.height - 3 - height, Math.max(x1 - x0 - 0.5, 0.8), height);
      ++this.drawn;
      this.hits.push({ x0, x1, y: row.y, height: row.height, row, bin: { begin, share, busy: busy / length, count: bins.count?.[i] } });
    });
    c.globalAlpha = 1;
  }

  // Changes by an operator, and faults, over all rows.
  drawMarks(c, events, height) {
    c.font = '11px system-ui, sans-serif';
    c.textAlign = 'left';
    for (const source of this.store.state?.snapshot.sources ?? []) {
      for (const [kind, name] of [[Kind.control, 'accent'], [Kind.fault, 'bad']]) {
        for (const event of this.visible(events.get(source.id, kind))) {
          const x = Math.round(this.x(event.begin)) + 0.5;
          const text = kind === Kind.control ? `${source.name}: ${event.value} threads` : `${source.name}: fault ${event.value}`;
          c.strokeStyle = color(name);
          c.setLineDash([4, 3]);
          strokes(c, [[x, AXIS, x, height]]);
          c.setLineDash([]);
          const width = c.measureText(text).width + 8;
          c.fillStyle = color(name);
          c.fillRect(x, height - 17, width, 15);
          c.fillStyle = color('card');
          c.fillText(text, x + 4, height - 9);
        }
      }
    }
  }

  // Time that has not come yet.
  drawEnd(c, height) {
    const x = this.x(this.store.now());
    if (x >= this.canvas.width) return;
    c.fillStyle = color('ground');
    c.fillRect(Math.max(x, LABELS), AXIS, this.canvas.width - x, height - AXIS);
  }

  // Text for what lies at a place, or null.
  describe(x, y) {
    const near = (hit) => x >= hit.x0 - 1 && x <= hit.x1 + 1 && y >= hit.y && y <= hit.y + hit.height;
    const hit = this.hits.findLast(near);
    if (!hit) return null;
    const { row, event, bin } = hit;
    if (bin) {
      const runs = bin.count ? `\n${bin.count} runs ended` : '';
      const amount = row.kind === Kind.stage ? `${bin.busy.toFixed(2)} threads at work` : percent(bin.share);
      return `${row.source.name}: ${amount}\nfor ${time(this.store.past.bin_ns)} from ${moment(bin.begin, 1e8)}${runs}`;
    }
    if (event.running) return `${row.source.name}: running since ${moment(event.begin, 1e6)}`;
    const packet = row.kind === Kind.stage ? `packet ${event.packet} of stream ${event.stream}` : `packet ${event.packet}`;
    const lines = [`${row.source.name}: ${row.index === WHOLE ? 'for all of its kernels' : packet}`,
      `${moment(event.begin, this.range.to - this.range.from)} + ${time(event.end - event.begin)}`];
    if (row.kind === Kind.in || row.kind === Kind.out) lines.push(`${row.kind === Kind.in ? 'written' : 'read'}: ${bytes(event.value)}`);
    if (row.kind === Kind.kernel && event.value > 0) lines.push(`${event.value} cycles`);
    if (row.kind === Kind.stage) lines.push(`waited ${time(event.value)} before`);
    return lines.join('\n');
  }
}
