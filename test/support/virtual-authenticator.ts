/** An authenticator in a real browser: makes and uses passkeys like a phone or a security key would. */
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestBrowser } from './chromium.ts';

export interface PasskeyPage {
  readonly origin: string;
  close(): Promise<void>;
}

const script = new URL(
  '../../node_modules/@simplewebauthn/browser/dist/bundle/index.umd.min.js',
  import.meta.url,
);

/** A page on localhost with the script that apps use. */
export async function startPasskeyPage(): Promise<PasskeyPage> {
  const bundle = await readFile(script);
  const server = createServer((request, response) => {
    const isScript = request.url === '/webauthn.js';
    response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html');
    response.end(
      isScript ? bundle : '<!doctype html><title>App</title><script src="/webauthn.js"></script>',
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://localhost:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export interface VirtualAuthenticator {
  /** What the browser answers to `register/options`; throws what it throws. */
  create(options: unknown): Promise<BrowserCredential>;
  /** What it answers to `authenticate/options`. */
  get(options: unknown): Promise<BrowserCredential>;
  /** Whether the person shows the face that the authenticator knows. */
  setUserVerified(isVerified: boolean): Promise<void>;
  /** The passkeys that it holds. */
  credentials(): Promise<readonly HeldPasskey[]>;
  /** Puts one in, as if it had been copied from another authenticator. */
  addCredential(credential: HeldPasskey): Promise<void>;
}

/** A passkey inside an authenticator (DevTools protocol, `WebAuthn.Credential`). */
export interface HeldPasskey {
  readonly credentialId: string;
  readonly isResidentCredential: boolean;
  readonly rpId?: string;
  readonly privateKey: string;
  readonly userHandle?: string;
  readonly signCount: number;
}

export interface BrowserCredential {
  readonly id: string;
  readonly response: Readonly<Record<string, unknown>>;
  readonly [key: string]: unknown;
}

/** The functions of the script, in the page. */
interface PageScript {
  readonly SimpleWebAuthnBrowser: Readonly<
    Record<string, (given: { readonly optionsJSON: unknown }) => Promise<BrowserCredential>>
  >;
}

export async function addVirtualAuthenticator(
  browser: TestBrowser,
  url: string,
): Promise<VirtualAuthenticator> {
  const { page, devices } = await browser.open(url);
  await devices.send('WebAuthn.enable');
  const options = {
    protocol: 'ctap2',
    transport: 'internal',
    hasResidentKey: true,
    hasUserVerification: true,
    isUserVerified: true,
  } as const;
  const { authenticatorId } = await devices.send('WebAuthn.addVirtualAuthenticator', { options });
  const run = (name: string, optionsJSON: unknown) =>
    page.evaluate(
      async ([call, given]) => {
        const start = (globalThis as unknown as PageScript).SimpleWebAuthnBrowser[call as string];
        if (!start) throw new Error('The script was not loaded');
        return start({ optionsJSON: given });
      },
      [name, optionsJSON] as const,
    );
  return {
    create: (given) => run('startRegistration', given),
    get: (given) => run('startAuthentication', given),
    setUserVerified: async (isUserVerified) =>
      void (await devices.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified })),
    credentials: async () =>
      (await devices.send('WebAuthn.getCredentials', { authenticatorId })).credentials,
    addCredential: async (credential) =>
      void (await devices.send('WebAuthn.addCredential', { authenticatorId, credential })),
  };
}
