// Bundles the page:  node build.mjs OUTPUT  writes index.html, page.js and page.css there. What the
// page needs of npm packages is inside the bundle, so that it works without a network.
import { copyFileSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

const source = join(dirname(fileURLToPath(import.meta.url)), 'src');
const output = process.argv[2] ?? 'dist';
mkdirSync(output, { recursive: true });
buildSync({
  entryPoints: [join(source, 'page.js'), join(source, 'page.css')],
  outdir: output,
  bundle: true,
  minify: true,
  target: ['es2021'],
  legalComments: 'inline',
  logLevel: 'warning',
});
copyFileSync(join(source, 'index.html'), join(output, 'index.html'));
