// The page of `tessera watch`: follows the server's events, asks for the past, draws.

import { Cards } from './cards.js';
import { Charts } from './charts.js';
import { Gestures } from './gestures.js';
import { moment, namesOf } from './format.js';
import { Overview } from './overview.js';
import { Panels } from './panels.js';
import { Store } from './store.js';
import { Timeline } from './timeline.js';

const SPANS = [['0.5 s', 0.5e9], ['2 s', 2e9], ['10 s', 10e9], ['1 min', 60e9]];
const BINS = 600;

const by = (id) => document.getElementById(id);
const store = new Store();
const timeline = new Timeline(by('timeline'), store);
const overview = new Overview(by('overview'), store);
const charts = new Charts(store, (from, to) => gestures.show(from, to));
const panels = new Panels(store, control);
const cards = new Cards(by('cards'), by('card-list'));
const gestures = new Gestures(store, timeline, overview, viewChanged);

function toast(text) {
  by('toast').textContent = text;
  by('toast').hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => (by('toast').hidden = true), 6000);
}

async function control(request) {
  try {
    const response = await fetch('/control', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(request) });
    const answer = await response.json();
    if (!response.ok) return toast(answer.error);
    store.setState(answer);
    drawState();
  } catch {
    toast('The program does not answer.');
  }
}

// One question at a time; the newest that was wanted meanwhile comes next.
async function ask(span, events, bins) {
  const to = Math.max(Math.ceil(span.to), 1);
  const from = Math.min(Math.max(Math.floor(span.from), 0), to - 1);
  const response = await fetch(`/history?from=${from}&to=${to}&events=${events}&bins=${bins}`);
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

let asking = false;
let askAgain = false;
async function askForView() {
  if (asking) return (askAgain = true);
  asking = true;
  try {
    const { from, to } = store.range();
    const following = store.view.following;
    // A little more than the view: what follows moves on, and lines go on beyond the borders.
    const margin = Math.max((to - from) * 0.1, 60e6);
    const span = { from: from - margin, to: to + (following ? 250e6 : margin) };
    const answer = await ask(span, following ? 0 : 30000, BINS);
    store.setPast(following ? { ...answer, has_events: false } : answer);
    charts.draw();
  } catch {
    // The connection's badge says so.
  }
  asking = false;
  if (!askAgain) return undefined;
  askAgain = false;
  return askForView();
}

async function askForOverview() {
  try {
    store.overview = await ask({ from: 0, to: store.now() }, 0, BINS);
  } catch {
    // The connection's badge says so.
  }
}

function viewChanged() {
  drawToolbar();
  askForView();
}

function drawToolbar() {
  const { following, span } = store.view;
  by('live').textContent = following ? 'Pause' : 'Follow';
  by('live').classList.toggle('following', !following);
  by('timeline').dataset.following = following;
  [...by('spans').children].forEach((button, i) => button.setAttribute('aria-pressed', following && span === SPANS[i][1]));
}

// What the marks mean, once for each of the two sets that kernels take turns with.
function drawLegend() {
  const kernels = namesOf(store.sources('kernel')).slice(0, 2);
  const key = String(kernels);
  if (by('legend').dataset.key === key) return;
  by('legend').dataset.key = key;
  const marks = ['● written  ○ begins  ■ read', '● written  × begins  + read'];
  const items = kernels.map((name, i) => [`${name}: ${marks[i]}`, `var(--k${i})`]);
  by('legend').replaceChildren(...items.map(([text, colour]) => {
    const item = document.createElement('span');
    item.style.color = colour;
    item.textContent = text;
    return item;
  }));
}

function drawState() {
  const { title, snapshot } = store.state;
  by('title').textContent = title;
  document.title = title;
  by('record').setAttribute('aria-pressed', snapshot.recording);
  by('record').querySelector('.text').textContent = snapshot.recording ? 'Recording' : 'Recording off';
  panels.draw();
  cards.draw(store.state.cards);
  drawLegend();
}

let chartsDrawn = 0;
function drawFrame() {
  if (store.state && !document.hidden) {
    const { from, to } = store.range();
    by('range').textContent = `${moment(Math.max(from, 0), to - from)} to ${moment(to, to - from)}`;
    by('elapsed').textContent = moment(store.now(), 1e10);
    timeline.draw();
    overview.draw();
    if (store.view.following && performance.now() > chartsDrawn + 100) {
      charts.draw();
      chartsDrawn = performance.now();
    }
  }
  requestAnimationFrame(drawFrame);
}

function connect() {
  const source = new EventSource('/events?interval=100');
  source.addEventListener('open', () => {
    by('connection').textContent = 'connected';
    by('connection').className = 'badge on';
  });
  source.addEventListener('error', () => {
    by('connection').textContent = 'no connection';
    by('connection').className = 'badge off';
    store.completeSince = Infinity;
  });
  source.addEventListener('state', (event) => {
    const state = JSON.parse(event.data);
    if (store.state && store.state.pid !== state.pid) location.reload();
    store.setState(state);
    drawState();
  });
  source.addEventListener('timeline', (event) => {
    store.addEvents(JSON.parse(event.data));
    by('timeline').dataset.received = store.events;
  });
}

for (const [label, span] of SPANS) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = label;
  button.onclick = () => {
    store.follow(span);
    viewChanged();
  };
  by('spans').append(button);
}
by('live').onclick = () => gestures.toggle();
by('zoom-in').onclick = () => gestures.zoom(0.5);
by('zoom-out').onclick = () => gestures.zoom(2);
by('record').onclick = () => control({ recording: by('record').getAttribute('aria-pressed') !== 'true' });

drawToolbar();
connect();
requestAnimationFrame(drawFrame);
setInterval(() => store.view.following && store.state && askForView(), 250);
setInterval(() => store.state && askForOverview(), 1000);
setTimeout(askForOverview, 600);
