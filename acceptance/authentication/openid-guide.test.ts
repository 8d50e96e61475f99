/** The app of docs/guides/openid-provider.md as it stands there, and the sign-in page in a real browser. */
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { join } from 'node:path';
import * as oidc from 'openid-client';
import { generateSync } from 'otplib';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  describeWithChromium,
  startChromium,
  type TestBrowser,
} from '../../test/support/chromium.ts';
import { freePort } from '../../test/support/free-port.ts';
import { expectStatus } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { projectRoot } from '../routes.ts';

await describeWithChromium('an app of the guide', () => {
  let platform: TestPlatform;
  let browser: TestBrowser;
  let app: Server;
  let appUrl: string;

  beforeAll(async () => {
    [platform, browser] = await Promise.all([createTestPlatform(), startChromium()]);
    const issuer = platform.addresses.client;
    appUrl = `http://127.0.0.1:${await freePort()}`;
    expectStatus(
      await platform.admin.patch('/config/authentication', {
        config: {
          accessTokens: { issuer, algorithm: 'ES256' },
          openidProvider: { enabled: true },
          twoFa: { enabled: true },
        },
      }),
      200,
      'configure',
    );
    const { body } = expectStatus(
      await platform.admin.post('/authentication/openid/clients', {
        clientId: 'wiki',
        name: 'Wiki & <more>',
        kind: 'web',
        redirectUris: [`${appUrl}/callback`],
      }),
      200,
      'register',
    );
    app = await runGuide({
      createServer,
      // Tests have no TLS.
      oidc: { ...oidc, discovery: insecureDiscovery },
      issuer,
      clientId: 'wiki',
      clientSecret: body.clientSecret,
      appUrl,
    });
    await new Promise<void>((resolve) =>
      app.listen(Number(new URL(appUrl).port), '127.0.0.1', resolve),
    );
  }, 300_000);
  afterAll(async () => {
    app?.closeAllConnections();
    app?.close();
    await Promise.all([platform?.close(), browser?.close()]);
  });

  const insecureDiscovery = (server: URL, clientId: string, secret: string) =>
    oidc.discovery(server, clientId, secret, undefined, {
      execute: [oidc.allowInsecureRequests],
    });

  const enter = async (page: Page, email: string, password: string): Promise<void> => {
    await page.fill('#password [name=name]', email);
    await page.fill('#password [name=password]', password);
    await page.click('#password button');
  };

  it('signs in with password and consent, and says what is wrong', async () => {
    const user = await platform.registerUser();
    const { page } = await browser.open(appUrl);
    expect(await page.title()).toBe('Sign in to Wiki & <more>');
    await enter(page, user.email, 'not the password');
    await page.getByText('The e-mail address or the password is wrong').waitFor();
    await enter(page, user.email, user.password);
    await page.click('#allow');
    await page.waitForURL(`${appUrl}/callback?**`);
    expect(await page.textContent('body')).toBe(`Hello, ${user.email} (${user.userId})`);
  }, 120_000);

  it('asks for the second factor', async () => {
    const user = await platform.registerUser();
    const { secret } = expectStatus(
      await user.api.put('/authentication/twoFa/enable', { method: 'authenticator' }),
      200,
      'enable',
    ).body;
    const code = (steps: number) =>
      generateSync({ secret, epoch: Math.floor(Date.now() / 1000) + steps * 30 });
    expectStatus(
      await user.api.post('/authentication/twoFa/enable/verify', { code: code(0) }),
      200,
      'verify',
    );
    const { page } = await browser.open(appUrl);
    await enter(page, user.email, user.password);
    await page.waitForSelector('#factor:not([hidden])');
    await page.fill('#factor [name=code]', code(1));
    await page.click('#factor button');
    await page.click('#allow');
    await page.waitForURL(`${appUrl}/callback?**`);
    expect(await page.textContent('body')).toContain(user.userId);
  }, 120_000);
});

/** The code block of the guide, without its imports; answers its server. */
async function runGuide(names: Readonly<Record<string, unknown>>): Promise<Server> {
  const guide = await readFile(join(projectRoot, 'docs/guides/openid-provider.md'), 'utf8');
  const [, code = ''] = /```js\n(?:import [^\n]+\n)+([\s\S]*?)```/.exec(guide) ?? [];
  const run = new Function(
    ...Object.keys(names),
    `return (async () => { ${code}; return server; })();`,
  );
  return run(...Object.values(names));
}
