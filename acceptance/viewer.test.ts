/** The pages for people below a path of a proxy, in a real browser: the front page, the API viewer, and a call that is tried there. */
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithChromium, startChromium, type TestBrowser } from '../test/support/chromium.ts';
import { expectStatus } from '../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';

const PREFIX = '/backend/api';
const PATIENCE = { timeout: 60_000 };

/** Passes on what is below the prefix, without it, and answers 404 for everything else, as a web server does that has other things there. */
const proxyTo = (target: string, refused: string[]): Server =>
  createServer((incoming, outgoing) => {
    const { url = '/', method, headers } = incoming;
    if (!url.startsWith(`${PREFIX}/`)) {
      refused.push(url);
      outgoing.writeHead(404).end();
      return;
    }
    const passed = request(
      new URL(url.slice(PREFIX.length), target),
      { method, headers },
      (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      },
    );
    passed.on('error', () => outgoing.destroy());
    incoming.pipe(passed);
  });

await describeWithChromium('below a path of a proxy', () => {
  let platform: TestPlatform;
  let browser: TestBrowser;
  let proxy: Server;
  let base: string;
  /** Paths that were asked for outside of the prefix. */
  const refused: string[] = [];
  const complaints: string[] = [];

  beforeAll(async () => {
    [platform, browser] = await Promise.all([createTestPlatform(), startChromium()]);
    proxy = proxyTo(platform.addresses.client, refused);
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    base = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}${PREFIX}`;
    const changed = await platform.admin.patch('/config/router', { hostUrl: base });
    expectStatus(changed, 200, 'hostUrl');
  }, 180_000);
  afterAll(async () => {
    await browser?.close();
    proxy?.closeAllConnections();
    proxy?.close();
    await platform?.close();
  });

  async function openFront(): Promise<Page> {
    const { page } = await browser.open('about:blank');
    page.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(`${base}/`, PATIENCE);
    return page;
  }

  it('says in words which operations need somebody to be signed in', async () => {
    const crudOperations = { read: {}, create: { authenticated: true } };
    await platform.createSchema({
      name: 'Page',
      fields: { title: 'String' },
      conduitOptions: { cms: { enabled: true, crudOperations } },
    });
    const { page } = await browser.open(`${platform.addresses.client}/reference#/Page`);
    const said = (path: string, method: string): Promise<string | null> =>
      page
        .locator(`.opblock-${method}`, { has: page.locator(`[data-path="${path}"]`) })
        .locator('.authorization__btn')
        .textContent(PATIENCE);
    expect(await said('/database/Page', 'get')).toBe('auth optional');
    expect(await said('/database/Page', 'post')).toBe('auth required');
    await page.locator('.opblock-post .access').first().click(PATIENCE);
    const dialog = page.locator('.modal-ux');
    await dialog.locator('input').first().fill('a token', PATIENCE);
    await dialog.getByRole('button', { name: 'Apply' }).first().click(PATIENCE);
    await dialog.getByRole('button', { name: 'Close' }).first().click(PATIENCE);
    expect(await said('/database/Page', 'get')).toBe('authorized');
    expect(await said('/database/Page', 'post')).toBe('authorized');
  }, 180_000);

  it('the front page leads to the viewer, which shows the API and calls it there', async () => {
    const page = await openFront();
    await page.getByRole('link', { name: 'API reference' }).click(PATIENCE);
    await page.waitForURL(`${base}/reference`, PATIENCE);
    // An operation that needs no credential and no input.
    const operation = page.locator('.opblock', {
      has: page.locator('[data-path="/live"]'),
    });
    const { paths } = (await platform.client.get('/swagger.json')).body;
    const tag = page.locator(`.opblock-tag[data-tag="${paths['/live'].get.tags[0]}"]`);
    await tag.click(PATIENCE);
    await operation.locator('.opblock-summary-control').click(PATIENCE);
    await operation.getByRole('button', { name: 'Execute' }).click(PATIENCE);
    const answer = operation.locator('.live-responses-table');
    await answer.waitFor(PATIENCE);
    expect(await answer.locator('.response-col_status').last().textContent(PATIENCE)).toContain(
      '200',
    );
    expect(await operation.locator('.request-url').textContent(PATIENCE)).toContain(`${base}/live`);
    expect({ refused, complaints }).toEqual({ refused: [], complaints: [] });
  }, 180_000);
});
