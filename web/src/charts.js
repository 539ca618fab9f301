// Four charts over the view's time: uPlot draws them from the bins of /history. Dragging in one zooms
// the view of all.

import uPlot from 'uplot';
import { color, colorOf } from './canvas.js';
import { digits, moment } from './format.js';

const POINTS_MAX = 100;
// Shorter points would only make the lines jump, but in a short view.
const pointNs = (span) => Math.max(span / POINTS_MAX, Math.min(50e6, span / 20));

// Each chart: the kind of its sources, what a bin's columns give in it, where its values end.
const CHARTS = [
  { element: 'chart-kernels', kind: 'kernel', offset: 0, top: 100, value: (bin, ns) => (100 * bin.busy) / ns },
  { element: 'chart-stages', kind: 'stage', offset: 2, top: 1, value: (bin, ns) => bin.busy / ns },
  { element: 'chart-queues', kind: 'queue', offset: 2, top: 1, value: (bin) => bin.depth },
  { element: 'chart-tasks', kind: 'tasks', offset: 0, top: 1, value: (bin, ns) => (bin.count * 1e9) / ns },
];

// The bins of a source, several joined to one, as columns of plain numbers.
function joined(bins, first, last, many) {
  const columns = { busy: [], count: [], depth: [] };
  for (const [name, column] of Object.entries(columns)) {
    const values = bins?.[name];
    for (let i = first; i + many <= last; i += many) {
      let joint = 0;
      for (let j = i; values && j < i + many; ++j) joint = name === 'depth' ? Math.max(joint, values[j]) : joint + values[j];
      column.push(joint);
    }
  }
  return columns;
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
    const names = sources.map((source) => source.name).join('\n') + color('text');
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
      series: [{}, ...sources.map((source, i) => ({ label: source.name, stroke: colorOf(i + this.shape.offset), width: 1.6, points: { show: false } }))],
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
    const length = Math.max(...past.bins.map((bins) => Math.max(0, ...Object.values(bins).map((v) => v.length))), 0);
    // Bins that time has not filled yet would look like idle time.
    const last = Math.min(length, Math.floor(Math.min(past.to, this.store.now()) / past.bin_ns) - past.first_bin);
    const many = Math.max(1, Math.ceil(pointNs(range.to - range.from) / past.bin_ns));
    // Groups begin at multiples, so that they stay what they are while the view moves on.
    const first = (many - (past.first_bin % many)) % many;
    const x = [];
    for (let i = first; i + many <= last; i += many) x.push(((past.first_bin + i + many / 2) * past.bin_ns) / 1e9);
    const series = sources.map((source) => {
      const columns = joined(past.bins[source.id], first, last, many);
      return x.map((_, i) => this.shape.value({ busy: columns.busy[i], count: columns.count[i], depth: columns.depth[i] }, past.bin_ns * many));
    });
    this.plot.setData([x, ...series], false);
    this.plot.batch(() => {
      this.plot.setScale('x', { min: range.from / 1e9, max: range.to / 1e9 });
    });
  }

  // What the legend leaves.
  height(hasLegend) {
    return this.element.clientHeight - (hasLegend ? 26 : 0);
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
