// Bundles the page:  node build.mjs OUTPUT  writes the pages of `tessera watch` (index.html, page.js, page.css) and of
// `tessera cluster watch` (pool.html, pool.js, pool.css) there. What a page needs of npm packages is inside the bundle, so that it works without a network.
import { copyFileSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

const source = join(dirname(fileURLToPath(import.meta.url)), 'src');
const output = process.argv[2] ?? 'dist';
mkdirSync(output, { recursive: true });
buildSync({
  entryPoints: ['page.js', 'page.css', 'pool.js', 'pool.css'].map((name) => join(source, name)),
  outdir: output,
  bundle: true,
  minify: true,
  target: ['es2021'],
  legalComments: 'inline',
  logLevel: 'warning',
});
for (const name of ['index.html', 'pool.html']) copyFileSync(join(source, name), join(output, name));
