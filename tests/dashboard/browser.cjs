// Drives a Chromium without a screen over its debugging pipe: messages of the DevTools protocol, one
// JSON text each, ended by a zero byte, on descriptors 3 and 4. No package is needed for that.
const { spawn } = require('node:child_process');
const { mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');

// Far longer than anything takes: a busy machine is no failure.
const WAIT_MS = 60000;

class Browser {
  static async start(program) {
    const browser = new Browser();
    browser.profile = mkdtempSync(join(tmpdir(), 'tessera-browser-'));
    browser.process = spawn(program, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
      '--no-first-run', '--disable-background-networking', '--disable-component-update', '--hide-scrollbars',
      '--remote-debugging-pipe', `--user-data-dir=${browser.profile}`, 'about:blank'],
    { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    browser.waiting = new Map();
    browser.errors = [];
    browser.nextId = 1;
    browser.ended = new Promise((resolve) => browser.process.on('exit', resolve));
    browser.ended.then((code) => browser.waiting.forEach(({ reject }) => reject(new Error(`the browser ended, status ${code}`))));
    browser.listen(browser.process.stdio[4]);
    const { targetInfos } = await browser.send('Target.getTargets');
    const page = targetInfos.find((target) => target.type === 'page');
    browser.session = (await browser.send('Target.attachToTarget', { targetId: page.targetId, flatten: true })).sessionId;
    for (const domain of ['Page', 'Runtime', 'Log']) await browser.send(`${domain}.enable`);
    return browser;
  }

  listen(stream) {
    let text = '';
    stream.setEncoding('utf8');
    stream.on('data', (data) => {
      text += data;
      const messages = text.split('\0');
      text = messages.pop();
      for (const message of messages) this.received(JSON.parse(message));
    });
  }

  received(message) {
    if (message.method === 'Runtime.exceptionThrown') this.errors.push(message.params.exceptionDetails.exception?.description);
    if (message.method === 'Log.entryAdded' && message.params.entry.level === 'error') {
      this.errors.push(`${message.params.entry.text} ${message.params.entry.url ?? ''}`);
    }
    const caller = this.waiting.get(message.id);
    if (!caller) return;
    this.waiting.delete(message.id);
    if (message.error) caller.reject(new Error(message.error.message));
    else caller.resolve(message.result);
  }

  send(method, params = {}) {
    const id = this.nextId++;
    this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId: this.session }) + '\0');
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  async open(url, { width, height, dark = false }) {
    await this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
    await this.theme(dark);
    await this.send('Page.navigate', { url });
    await this.until('the page to load', `location.href.startsWith('${url}') && document.readyState === 'complete'`);
  }

  theme(dark) {
    return this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] });
  }

  // The value of an expression in the page.
  async value(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  // Waits until the expression is true; says what was waited for where it never is.
  async until(what, expression, timeoutMs = WAIT_MS) {
    const end = Date.now() + timeoutMs;
    while (!(await this.value(expression))) {
      if (Date.now() > end) throw new Error(`waited ${timeoutMs / 1000} s for: ${what}\n  (${expression})`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  mouse(type, x, y, more = {}) {
    return this.send('Input.dispatchMouseEvent', { type, x, y, button: 'left', buttons: type === 'mouseReleased' ? 0 : 1, clickCount: 1, ...more });
  }

  // A place inside an element, in shares of its size.
  async place(selector, shareX, shareY) {
    const box = await this.value(`(({x, y, width, height}) => ({x, y, width, height}))(document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect())`);
    return [box.x + box.width * shareX, box.y + box.height * shareY];
  }

  async drag(selector, fromX, toX, y = 0.5) {
    const [x0, y0] = await this.place(selector, fromX, y);
    const [x1] = await this.place(selector, toX, y);
    await this.mouse('mousePressed', x0, y0);
    for (let i = 1; i <= 5; ++i) await this.mouse('mouseMoved', x0 + ((x1 - x0) * i) / 5, y0);
    await this.mouse('mouseReleased', x1, y0);
  }

  // Once, however busy the machine is: a press that met nothing, because the page moved the element or
  // had it disabled meanwhile, is made again.
  async click(selector, timeoutMs = WAIT_MS) {
    const element = `document.querySelector(${JSON.stringify(selector)})`;
    await this.value(`{ window.clicked = false; ${element}.addEventListener('click', () => { window.clicked = true; }, { once: true, capture: true }); }`);
    const end = Date.now() + timeoutMs;
    for (;;) {
      const [x, y] = await this.place(selector, 0.5, 0.5);
      await this.mouse('mousePressed', x, y);
      await this.mouse('mouseReleased', x, y);
      if (await this.value('window.clicked')) return;
      if (Date.now() > end) throw new Error(`no click on ${selector} in ${timeoutMs / 1000} s`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async screenshot() {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
    return Buffer.from(data, 'base64');
  }

  async close() {
    this.send('Browser.close').catch(() => {});
    const late = setTimeout(() => this.process.kill('SIGKILL'), 5000);
    await this.ended;
    clearTimeout(late);
    // Its other processes may still be writing.
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

module.exports = { Browser };
