// Mouse and keys: what changes the view.

export class Gestures {
  constructor(store, timeline, overview, changed) {
    this.store = store;
    this.timeline = timeline;
    this.changed = changed;
    this.listenToTimeline(timeline.element);
    this.listenToOverview(overview);
    this.listenToKeys();
  }

  show(from, to) {
    this.store.show(from, to);
    this.changed();
  }

  // Factor below 1: nearer. What lies at `centre` stays where it is; what follows goes on following.
  zoom(factor, centre) {
    const { from, to } = this.store.range();
    if (this.store.view.following) {
      this.store.follow(Math.min(Math.max((to - from) * factor, 1e6), Math.max(this.store.now(), 1e9)));
      return this.changed();
    }
    const at = centre ?? (from + to) / 2;
    this.show(at - (at - from) * factor, at + (to - at) * factor);
  }

  move(share) {
    const { from, to } = this.store.range();
    this.show(from + share * (to - from), to + share * (to - from));
  }

  listenToTimeline(element) {
    let drag = null;
    const place = (event) => event.clientX - element.getBoundingClientRect().left;
    element.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      element.setPointerCapture(event.pointerId);
      if (this.store.view.following) this.store.pause();
      drag = { x: place(event), range: this.store.range(), moving: event.shiftKey };
      this.changed();
    });
    element.addEventListener('pointermove', (event) => {
      const x = place(event);
      if (!drag) return this.tip(event, x);
      if (drag.moving) {
        const shift = this.timeline.ns(drag.x) - this.timeline.ns(x);
        this.show(drag.range.from + shift, drag.range.to + shift);
      } else {
        this.timeline.selection = [drag.x, x];
      }
    });
    element.addEventListener('pointerup', (event) => {
      if (!drag) return;
      const x = place(event);
      const { moving, x: x0 } = drag;
      drag = null;
      this.timeline.selection = null;
      if (!moving && Math.abs(x - x0) > 4) this.show(this.timeline.ns(Math.min(x, x0)), this.timeline.ns(Math.max(x, x0)));
    });
    element.addEventListener('pointerleave', () => this.hideTip());
    element.addEventListener('dblclick', (event) => this.zoom(4, this.timeline.ns(place(event))));
    element.addEventListener('wheel', (event) => {
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return this.move((event.deltaX || event.deltaY) / 1500);
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeline.ns(place(event)));
    }, { passive: false });
  }

  tip(event, x) {
    const text = this.timeline.describe(x, event.clientY - this.timeline.element.getBoundingClientRect().top);
    const tip = document.getElementById('tooltip');
    tip.hidden = text === null;
    if (text === null) return;
    tip.textContent = text;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY + 16}px`;
  }
  hideTip() {
    document.getElementById('tooltip').hidden = true;
  }

  // The window of the view is dragged; a click elsewhere moves it there.
  listenToOverview(overview) {
    const element = overview.canvas.element;
    let grip = null;
    const place = (event) => event.clientX - element.getBoundingClientRect().left;
    element.addEventListener('pointerdown', (event) => {
      element.setPointerCapture(event.pointerId);
      const { from, to } = this.store.range();
      const at = overview.ns(place(event));
      grip = at >= from && at <= to ? at - from : (to - from) / 2;
      this.show(at - grip, at - grip + (to - from));
    });
    element.addEventListener('pointermove', (event) => {
      if (grip === null) return;
      const { from, to } = this.store.range();
      const at = overview.ns(place(event));
      this.show(at - grip, at - grip + (to - from));
    });
    element.addEventListener('pointerup', () => (grip = null));
  }

  listenToKeys() {
    document.addEventListener('keydown', (event) => {
      if (event.target.closest?.('button, select, a, input') || event.ctrlKey || event.metaKey) return;
      const actions = {
        ' ': () => this.toggle(),
        ArrowLeft: () => this.move(-0.25),
        ArrowRight: () => this.move(0.25),
        '+': () => this.zoom(0.5),
        '-': () => this.zoom(2),
      };
      if (!actions[event.key]) return;
      event.preventDefault();
      actions[event.key]();
    });
  }

  toggle() {
    if (this.store.view.following) this.store.pause();
    else this.store.follow(Math.min(this.store.view.span, 60e9));
    this.changed();
  }
}
