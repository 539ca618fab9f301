// Four charts over the view's time: uPlot draws them from the bins of /history. Dragging in one zooms
// the view of all.

import uPlot from 'uplot';
import { color, colorOf } from './canvas.js';
import { digits, moment, namesOf } from './format.js';

const HEIGHT = 160; // as page.css has it
const POINTS_MAX = 100;
// Shorter points would only make the lines jump, but in a short view.
const pointNs = (span) => Math.max(span / POINTS_MAX, Math.min(50e6, span / 20));

// Each chart: the kind of its sources, the column of their bins, what several bins give together
// (`ns`: how much of their time is over), where the values end.
const sum = (values) => values.reduce((all, value) => all + value, 0);
const CHARTS = [
  { element: 'chart-kernels', kind: 'kernel', column: 'busy', offset: 0, top: 100, value: (busy, ns) => Math.min((100 * sum(busy)) / ns, 100) },
  { element: 'chart-stages', kind: 'stage', column: 'busy', offset: 2, top: 1, value: (busy, ns) => sum(busy) / ns },
  { element: 'chart-queues', kind: 'queue', column: 'depth', offset: 2, top: 1, value: (depths) => Math.max(0, ...depths) },
  { element: 'chart-tasks', kind: 'tasks', column: 'rate', offset: 0, top: 1, value: (rates) => sum(rates) / Math.max(rates.length, 1) },
];

// The bins of /history in groups of `many`, each one a point of a line. Groups begin at multiples, so
// that they stay what they are while the view moves on. What the server did not know yet when it
// answered is no idle time: bins that are not over are left out, and the newest group stands for the
// part of it that is over, if that is enough to say something.
export function points(past, many) {
  const over = Math.floor(past.until / past.bin_ns) - past.first_bin;
  const last = Math.min(over, Math.floor(past.to / past.bin_ns) - past.first_bin);
  const groups = [];
  for (let begin = (many - (past.first_bin % many)) % many; begin < last; begin += many) {
    const end = Math.min(begin + many, last);
    if (end - begin < many / 4) break;
    groups.push({ begin, end, at: (past.first_bin + (begin + end) / 2) * past.bin_ns, ns: (end - begin) * past.bin_ns });
  }
  return groups;
}

class Chart {
  constructor(shape, store, zoom) {
    this.shape = shape;
    this.store = store;
    this.zoom = zoom;
    this.element = document.getElementById(shape.element);
    this.plot = null;
    this.names = '';
  }

  // A new plot when there are other sources or other colours.
  make(sources) {
    const labels = namesOf(sources);
    const names = labels.join('\n') + color('text');
    if (this.plot && names === this.names) return;
    this.names = names;
    this.plot?.destroy();
    const axis = { stroke: color('quiet'), grid: { stroke: color('line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
    this.plot = new uPlot({
      width: this.element.clientWidth,
      height: this.height(sources.length > 1),
      padding: [8, 10, 0, 0],
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(high * 1.05, this.shape.top)] } },
      axes: [
        { ...axis, space: 80, size: 24, values: (plot, ticks) => ticks.map((t) => (t < 0 ? '' : moment(t * 1e9, (plot.scales.x.max - plot.scales.x.min) * 2e9))) },
        { ...axis, size: 40, values: (_, ticks) => ticks.map(digits) },
      ],
      series: [{}, ...labels.map((label, i) => ({ label, stroke: colorOf(i + this.shape.offset), width: 1.6, points: { show: false } }))],
      cursor: { y: false, drag: { x: true, y: false, setScale: false } },
      legend: { show: sources.length > 1, live: false },
      hooks: { setSelect: [(plot) => this.selected(plot)] },
    }, [[], ...sources.map(() => [])], this.element);
  }

  selected(plot) {
    if (plot.select.width < 4) return;
    const from = plot.posToVal(plot.select.left, 'x') * 1e9;
    const to = plot.posToVal(plot.select.left + plot.select.width, 'x') * 1e9;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoom(from, to);
  }

  draw() {
    const sources = this.store.sources(this.shape.kind);
    if (sources.length === 0) return;
    this.make(sources);
    const past = this.store.past;
    if (!past) return;
    const range = this.store.range();
    const many = Math.max(1, Math.ceil(pointNs(range.to - range.from) / past.bin_ns));
    const groups = points(past, many);
    const series = sources.map((source) => {
      const column = past.bins[source.id]?.[this.shape.column] ?? [];
      return groups.map(({ begin, end, ns }) => this.shape.value(column.slice(begin, end), ns));
    });
    this.plot.setData([groups.map(({ at }) => at / 1e9), ...series], false);
    this.note(series);
    this.plot.batch(() => {
      this.plot.setScale('x', { min: range.from / 1e9, max: range.to / 1e9 });
    });
  }

  // What a test wants to know of the picture: the lines' values.
  note(series) {
    this.element.dataset.lines = JSON.stringify(series.map((line) => line.map((value) => Number(value.toPrecision(4)))));
  }

  // What a legend of one line leaves; one of more makes the chart higher.
  height(hasLegend) {
    return HEIGHT - (hasLegend ? 26 : 0);
  }

  resize() {
    this.plot?.setSize({ width: this.element.clientWidth, height: this.height(this.plot.series.length > 2) });
  }
}

export class Charts {
  constructor(store, zoom) {
    this.charts = CHARTS.map((shape) => new Chart(shape, store, zoom));
    new ResizeObserver(() => this.charts.forEach((chart) => chart.resize())).observe(document.querySelector('.charts'));
  }

  draw() {
    for (const chart of this.charts) chart.draw();
  }
}
