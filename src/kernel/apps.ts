/**
 * Which app a request of the client surface comes from ("security client" of the interface: the headers
 * `clientid` and `clientsecret`). The router module keeps the apps and decides; surfaces and the pipeline only ask.
 */
import type { IncomingHttpHeaders } from 'node:http';

/** What a request says about the app that sends it, before anything is believed. */
export interface PresentedApp {
  readonly clientId: string | undefined;
  readonly clientSecret: string | undefined;
  /** `Origin`, which browsers send and pages cannot set. */
  readonly origin: string | undefined;
  readonly host: string | undefined;
}

export interface AppGate {
  /**
   * The id of the registered app that a request comes from; nothing while apps are not told apart.
   * Throws 401. Answers without a promise when the app is cached.
   */
  admit(app: PresentedApp): string | undefined | Promise<string | undefined>;
}

/** The app of every request while apps are not told apart. */
export const anonymousApp = 'anonymous-client';

export const noApp: PresentedApp = Object.freeze({ clientId: undefined, clientSecret: undefined, origin: undefined, host: undefined });

/** Longer headers are nobody's. */
const maxLength = 512;

/** What the headers of a request say. */
export function presentedApp(headers: IncomingHttpHeaders): PresentedApp {
  const { clientid, clientsecret, origin, host } = headers;
  return { clientId: single(clientid), clientSecret: single(clientsecret), origin, host };
}

const single = (value: string | readonly string[] | undefined): string | undefined =>
  typeof value === 'string' && value !== '' && value.length <= maxLength ? value : undefined;
