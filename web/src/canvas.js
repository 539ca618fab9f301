// A canvas that fills its element at the screen's resolution, and the page's colours.

let cache = null;
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => (cache = null));

// The custom properties of page.css by name: color('text').
export function color(name) {
  cache ??= new Map();
  if (!cache.has(name)) cache.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return cache.get(name);
}

// The colour of the index-th kernel, stage or queue.
export const colorOf = (index) => color(`k${index % 8}`);

// As much of a text as the context draws in `width`, with dots for what is left out.
export function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let kept = text.length;
  while (kept > 0 && context.measureText(`${text.slice(0, kept)}…`).width > width) --kept;
  return `${text.slice(0, kept)}…`;
}

export class Canvas {
  constructor(element) {
    this.element = element;
    this.canvas = element.appendChild(document.createElement('canvas'));
    this.context = this.canvas.getContext('2d');
  }

  // Clears it, `height` points high; returns the context, scaled to points.
  begin(height) {
    const scale = window.devicePixelRatio || 1;
    this.width = this.element.clientWidth;
    this.height = height;
    const wide = Math.round(this.width * scale);
    const high = Math.round(height * scale);
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
      this.canvas.style.height = `${height}px`;
    }
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.clearRect(0, 0, this.width, height);
    return this.context;
  }
}
