/** A real browser for what only a browser does (passkeys). It comes with the system, never with our packages. */
import type { CDPSession, Page } from 'playwright-core';
import { describe, it } from 'vitest';
import { findOnPath } from './servers/find-program.ts';

const names = ['chromium', 'chromium-browser', 'google-chrome'] as const;
const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-dev-shm-usage',
];

async function findChromium(): Promise<string | undefined> {
  for (const name of names) {
    const found = await findOnPath(name);
    if (found) return found;
  }
  return undefined;
}

/**
 * `await describeWithChromium('...', () => {...})` at the top level of a test file. Where there is no such browser
 * the suite is reported as skipped with the reason in its name; with `CI` set it fails instead.
 */
export async function describeWithChromium(name: string, suite: () => void): Promise<void> {
  if (await findChromium()) {
    describe(name, suite);
  } else if (process.env.CI) {
    it(`${name}: needs a browser`, () => {
      throw new Error(
        `None of ${names.join(', ')} is on the PATH: install Debian's package chromium`,
      );
    });
  } else {
    describe.skip(`${name} [skipped: none of ${names.join(', ')} is on the PATH]`, suite);
  }
}

export interface TestBrowser {
  /** A new page of a profile of its own, with the session in which its devices are controlled. */
  open(url: string): Promise<{ readonly page: Page; readonly devices: CDPSession }>;
  close(): Promise<void>;
}

export async function startChromium(): Promise<TestBrowser> {
  const { chromium } = await import('playwright-core');
  const executablePath = await findChromium();
  if (!executablePath) throw new Error('There is no browser');
  const browser = await chromium.launch({
    executablePath,
    headless: true,
    args: flags,
    timeout: 120_000,
  });
  return {
    async open(url) {
      const context = await browser.newContext();
      const page = await context.newPage();
      await page.goto(url, { timeout: 60_000 });
      return { page, devices: await context.newCDPSession(page) };
    },
    close: () => browser.close(),
  };
}
