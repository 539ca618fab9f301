// Every core of the pool, a square each: groups side by side in a card, cards in rows. However many there are, what is
// drawn is what is seen: the canvas is as high as its window, and the rows behind it are computed.
//
//   n0 · 0  ■■■■ ■■□□ ...      n1 · 0  □□□□ □□□□ ...

import { Canvas, color, shortened } from './canvas.js';

const LABEL = 88;
const GAP = 14;

export class PoolMap {
  constructor(element) {
    this.element = element;
    const sheet = element.appendChild(document.createElement('div'));
    const frame = sheet.appendChild(document.createElement('div'));
    frame.className = 'canvas';
    this.sheet = sheet;
    this.canvas = new Canvas(frame);
    this.cards = [];
    this.colors = new Map();
    element.addEventListener('scroll', () => this.draw());
    new ResizeObserver(() => this.draw()).observe(element);
  }

  // cards: {node, card, cores, groups, draining, owners: allocation by core}; colorOf: tenant to colour.
  show(cards, colorOf) {
    this.cards = cards;
    this.colorOf = colorOf;
    this.draw();
  }

  // Squares are as large as lets the pool be seen at a glance, between 5 and 14 points.
  layout() {
    const width = this.element.clientWidth;
    const height = this.element.clientHeight;
    const most = Math.max(1, ...this.cards.map((card) => card.cores + card.groups));
    for (let size = 14; ; --size) {
      const wide = LABEL + most * size + GAP;
      const columns = Math.max(1, Math.floor(width / wide));
      const rows = Math.ceil(this.cards.length / columns);
      const high = size + 5;
      if (rows * high <= height || size === 5) return { size, wide, columns, rows, high };
    }
  }

  place(index, layout) {
    return { x: (index % layout.columns) * layout.wide, y: Math.floor(index / layout.columns) * layout.high - this.element.scrollTop };
  }

  draw() {
    const layout = this.layout();
    this.drawn = layout;
    const height = this.element.clientHeight;
    this.sheet.style.height = `${Math.max(layout.rows * layout.high, height)}px`;
    const c = this.canvas.begin(height);
    c.font = `${Math.min(layout.size + 2, 12)}px system-ui, sans-serif`;
    c.textBaseline = 'middle';
    const first = Math.floor(this.element.scrollTop / layout.high) * layout.columns;
    const last = Math.min(this.cards.length, first + (Math.ceil(height / layout.high) + 1) * layout.columns);
    let cores = 0;
    for (let index = first; index < last; ++index) cores += this.drawCard(c, index, layout);
    Object.assign(this.element.dataset, { first, drawn: last - first, cores, size: layout.size, cards: this.cards.length });
  }

  drawCard(c, index, layout) {
    const card = this.cards[index];
    const { x, y } = this.place(index, layout);
    c.fillStyle = color(card.draining ? 'warn' : 'quiet');
    c.fillText(shortened(c, `${card.node} · ${card.card}`, LABEL - 8), x, y + layout.size / 2);
    const inGroup = card.cores / card.groups;
    for (let core = 0; core < card.cores; ++core) {
      const owner = card.owners[core];
      c.fillStyle = owner ? this.colorOf(owner.tenant) : color(card.draining ? 'line' : 'track');
      c.fillRect(x + LABEL + (core + Math.floor(core / inGroup)) * layout.size, y, layout.size - 1, layout.size - 1);
    }
    return card.cores;
  }

  // What is under a place of the window.
  at(x, y) {
    const layout = this.drawn;
    const column = Math.floor(x / layout.wide);
    const index = Math.floor((y + this.element.scrollTop) / layout.high) * layout.columns + column;
    const card = this.cards[index];
    if (!card || column >= layout.columns) return null;
    const inGroup = card.cores / card.groups;
    const slot = Math.floor((x - column * layout.wide - LABEL) / layout.size);
    const group = Math.floor(slot / (inGroup + 1));
    const core = slot - group;
    const isCore = slot >= 0 && slot % (inGroup + 1) < inGroup && core < card.cores;
    if (!isCore) return `${card.node}, card ${card.card}: ${card.arch}${card.draining ? ', gets nothing new' : ''}`;
    const owner = card.owners[core];
    return `${card.node}, card ${card.card}, group ${group}, core ${core}\n${owner ? `${owner.alloc} of ${owner.tenant}` : 'free'}`;
  }
}
