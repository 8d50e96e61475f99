/**
 * `npm run picture`: the picture of the README, from a platform that runs on the usual ports with the music store in it
 * (`npm start`, `npm run example`). Needs Chromium of the system.
 */
import { join } from 'node:path';
import { startChromium } from '../test/support/chromium.ts';
import { projectRoot } from './routes.ts';

const file = 'docs/images/api-reference.png';
const address = process.env.CLIENT_URL ?? 'http://127.0.0.1:3000';

const browser = await startChromium();
try {
  const { page } = await browser.open(`${address}/reference#/Track`);
  await page.setViewportSize({ width: 1200, height: 760 });
  const tag = page.locator('.opblock-tag[data-tag="Track"]');
  await tag.waitFor({ timeout: 60_000 });
  await tag.scrollIntoViewIfNeeded();
  await page.screenshot({ path: join(projectRoot, file) });
} finally {
  await browser.close();
}
process.stdout.write(`${file} was made\n`);
