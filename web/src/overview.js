// The whole run in one strip: how busy the kernels were, and a window that shows where the view is.
// Drag it to scroll back.

import { Canvas, color, colorOf } from './canvas.js';
import { moment } from './format.js';

const HEIGHT = 46;
const LEFT = 118; // as the timeline's labels

export class Overview {
  constructor(element, store) {
    this.store = store;
    this.canvas = new Canvas(element);
  }

  get end() {
    return Math.max(this.store.now(), 1e9);
  }
  x(ns) {
    return LEFT + (ns / this.end) * (this.canvas.width - LEFT);
  }
  ns(x) {
    return ((x - LEFT) / (this.canvas.width - LEFT)) * this.end;
  }

  draw() {
    const c = this.canvas.begin(HEIGHT);
    c.fillStyle = color('stripe');
    c.fillRect(LEFT, 0, this.canvas.width - LEFT, HEIGHT - 14);
    this.drawKernels(c);
    const range = this.store.range();
    const x0 = Math.max(this.x(range.from), LEFT);
    const x1 = Math.min(Math.max(this.x(range.to), x0 + 3), this.canvas.width);
    c.fillStyle = color('accent');
    c.globalAlpha = 0.22;
    c.fillRect(x0, 0, x1 - x0, HEIGHT - 14);
    c.globalAlpha = 1;
    c.strokeStyle = color('accent');
    c.strokeRect(x0 + 0.5, 0.5, Math.max(x1 - x0 - 1, 1), HEIGHT - 15);
    c.fillStyle = color('quiet');
    c.font = '11px system-ui, sans-serif';
    c.textBaseline = 'alphabetic';
    c.textAlign = 'left';
    c.fillText('whole run', 9, HEIGHT - 26);
    c.fillText('0', LEFT, HEIGHT - 3);
    c.textAlign = 'right';
    c.fillText(moment(this.end, this.end / 10), this.canvas.width, HEIGHT - 3);
  }

  // One line per kernel, its mean share in each bin.
  drawKernels(c) {
    const answer = this.store.overview;
    if (!answer) return;
    c.lineWidth = 1.2;
    this.store.sources('kernel').forEach((source, index) => {
      const busy = answer.bins[source.id]?.busy;
      if (!busy) return;
      c.strokeStyle = colorOf(index);
      c.beginPath();
      busy.forEach((ns, i) => {
        const begin = (answer.first_bin + i) * answer.bin_ns;
        const length = Math.min(answer.bin_ns, answer.until - begin);
        if (length < answer.bin_ns / 4) return;
        const y = 2 + (HEIGHT - 18) * (1 - Math.min(ns / length, 1));
        c.lineTo(this.x(begin + length / 2), y);
      });
      c.stroke();
    });
    c.lineWidth = 1;
  }
}
