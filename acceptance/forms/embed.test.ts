/** The snippet in a page of another site, under a strict content security policy, in a real browser. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  describeWithChromium,
  startChromium,
  type TestBrowser,
} from '../../test/support/chromium.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { createForm, processed, submissionsOf } from './requests.ts';

await describeWithChromium('a form in a page', () => {
  let platform: TestPlatform;
  let browser: TestBrowser;
  let site: Server;
  let address: string;
  /** What the site shows. */
  let html = '';
  const complaints: string[] = [];

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    const api = platform.addresses.client;
    // No inline styles and scripts, and nobody to talk to but the platform.
    const policy = `default-src 'none'; script-src ${api}; connect-src ${api}; base-uri 'none'; form-action 'none'`;
    site = createServer((_request, response) => {
      response
        .writeHead(200, {
          'content-type': 'text/html; charset=utf-8',
          'content-security-policy': policy,
        })
        .end(`<!doctype html><html lang="en"><title>Site</title><h1>Contact</h1>${html}</html>`);
    }).listen(0, '127.0.0.1');
    browser = await startChromium();
    address = `http://127.0.0.1:${(site.address() as AddressInfo).port}/`;
  }, 180_000);
  afterAll(async () => {
    await browser?.close();
    site?.close();
    await platform?.close();
  });

  async function open(form: { _id: string }, clientId?: string): Promise<Page> {
    html = (await platform.admin.get(`/admin/forms/${form._id}/embed`)).body.html;
    if (clientId !== undefined) html = html.replace('<div ', `<div data-client-id="${clientId}" `);
    const { page } = await browser.open('about:blank');
    complaints.length = 0;
    page.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(address);
    await page.waitForSelector('form.penstock-form');
    return page;
  }

  const allFields = [
    { name: 'name', type: 'text', label: 'Your name', required: true, minLength: 2 },
    {
      name: 'email',
      type: 'email',
      label: 'E-mail',
      placeholder: 'you@example.com',
      required: true,
    },
    { name: 'phone', type: 'phone', label: 'Telephone' },
    {
      name: 'topic',
      type: 'select',
      label: 'Topic',
      options: ['Sales', 'Support'],
      default: 'Support',
    },
    { name: 'amount', type: 'number', label: 'How many', min: 1, max: 9, integer: true },
    { name: 'when', type: 'date', label: 'When' },
    { name: 'message', type: 'textarea', label: 'Message', required: true },
    { name: 'paper', type: 'file', label: 'File' },
    // As a property of every form in a page.
    { name: 'elements', type: 'text', label: 'Elements' },
    { name: 'terms', type: 'checkbox', label: 'I agree to the terms', required: true },
  ];

  it('is shown, sent with its file and a solved challenge, and answers', async () => {
    await platform.admin.patch('/config/forms', { config: { spam: { minFillSeconds: 0 } } });
    const form = await createForm(platform.admin, {
      fields: allFields,
      proofOfWork: true,
      message: 'Thank you, we will write soon.',
    });
    const page = await open(form);
    await page.getByLabel('Your name').fill('Ada <b>Lovelace</b>');
    await page.getByLabel('E-mail').fill('ada@example.com');
    await page.getByLabel('How many').fill('3');
    await page.getByLabel('When').fill('2026-12-01');
    await page.getByLabel('Message').fill('Two\nlines');
    await page.getByLabel('File').setInputFiles({
      name: 'notes.txt',
      mimeType: 'text/plain',
      buffer: Buffer.from('the notes'),
    });
    await page.getByLabel('I agree').check();
    if (process.env.SCREENSHOTS)
      await page.screenshot({ path: `${process.env.SCREENSHOTS}/form.png`, fullPage: true });
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('Thank you, we will write soon.').waitFor({ timeout: 60_000 });
    if (process.env.SCREENSHOTS)
      await page.screenshot({ path: `${process.env.SCREENSHOTS}/sent.png`, fullPage: true });
    expect(complaints).toEqual([]);
    const [submission] = await submissionsOf(platform.admin, form._id);
    expect(await processed(platform.admin, submission._id)).toMatchObject({
      possibleSpam: false,
      data: {
        name: 'Ada <b>Lovelace</b>',
        email: 'ada@example.com',
        topic: 'Support',
        amount: 3,
        when: '2026-12-01',
        message: 'Two\nlines',
        terms: true,
      },
      files: [{ name: 'notes.txt', size: 9 }],
    });
  }, 120_000);

  it('tells what is wrong beside the field, and can be sent again', async () => {
    const form = await createForm(platform.admin, {
      fields: [
        { name: 'code', type: 'text', label: 'Code', required: true, pattern: '^[A-Z]{3}$' },
      ],
    });
    const page = await open(form);
    await page.getByLabel('Code').fill('abc');
    await page.getByRole('button').click();
    await page.getByText('does not look as this field wants it').waitFor();
    expect(await page.getByLabel('Code').getAttribute('aria-invalid')).toBe('true');
    if (process.env.SCREENSHOTS)
      await page.screenshot({ path: `${process.env.SCREENSHOTS}/wrong.png`, fullPage: true });
    await page.getByLabel('Code').fill('ABC');
    await page.getByRole('button').click();
    await page.getByText('Form submitted successfully').waitFor();
    expect(await submissionsOf(platform.admin, form._id)).toMatchObject([
      { data: { code: 'ABC' } },
    ]);
    // The answer to the refused submission is one of the browser's own complaints.
    expect(complaints.filter((text) => !text.includes('400'))).toEqual([]);
  }, 120_000);

  it('says which app it belongs to wherever it asks, for a challenge too', async () => {
    const app = { platform: 'WEB', domain: '*', alias: 'site' };
    const { clientId } = (await platform.admin.post('/security/client', app)).body;
    const validation = (clientValidation: boolean) =>
      platform.admin.patch('/config/router', { security: { clientValidation } });
    expect((await validation(true)).status).toBe(200);
    const form = await createForm(platform.admin, {
      fields: [{ name: 'code', type: 'text', label: 'Code' }],
      proofOfWork: true,
    });
    const page = await open(form, clientId);
    await page.getByLabel('Code').fill('ABC');
    await page.getByRole('button').click();
    await page.getByText('Form submitted successfully').waitFor({ timeout: 20_000 });
    expect((await validation(false)).status).toBe(200);
  }, 120_000);

  it('has a field that people do not see, and shows nothing of a form that is switched off', async () => {
    const form = await createForm(platform.admin);
    const page = await open(form);
    const trap = page.locator('input[name=website_url]');
    expect(await trap.count()).toBe(1);
    const box = await trap.boundingBox();
    expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThan(0);
    expect(await trap.getAttribute('tabindex')).toBe('-1');
    await platform.admin.put(`/admin/forms/${form._id}`, { enabled: false });
    await page.reload();
    await page.waitForLoadState('networkidle');
    expect(await page.locator('form').count()).toBe(0);
  }, 120_000);
});
