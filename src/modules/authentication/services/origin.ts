/** Where requests come from, as sessions remember it. */
import { anonymousApp } from '../../../kernel/identity.ts';
import { cutText, storable } from '../../../kernel/text.ts';

/* What people call the thing they signed in with, out of its user agent: `Firefox on Windows`. A guess, and no proof of anything. */

type Rule = readonly [pattern: RegExp, name: string];

/** The first that fits: most browsers also claim to be those below them. */
const browsers: readonly Rule[] = [
  [/\bEdgA?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\bFirefox\/|\bFxiOS\//, 'Firefox'],
  [/\bChrome\/|\bCriOS\/|\bChromium\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
];

const systems: readonly Rule[] = [
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bMac OS X\b|\bMacintosh\b/, 'macOS'],
  [/\bLinux\b/, 'Linux'],
];

const nameOf = (rules: readonly Rule[], text: string): string | undefined =>
  rules.find(([pattern]) => pattern.test(text))?.[1];

/** Programs name themselves first: `okhttp/4.12.0`. */
const product = /^[A-Za-z][\w.-]{0,39}/;

export function deviceName(userAgent: string | null | undefined): string {
  if (!userAgent) return 'Unknown device';
  const browser = nameOf(browsers, userAgent);
  const system = nameOf(systems, userAgent);
  if (browser !== undefined && system !== undefined) return `${browser} on ${system}`;
  return browser ?? system ?? product.exec(userAgent)?.[0] ?? 'Unknown device';
}

/** Address, browser and app of a request. */
export interface Origin {
  readonly address: string;
  readonly userAgent: string | undefined;
  /** The registered app that the request comes from; absent or `anonymous-client` while apps are not told apart. */
  readonly clientId?: string;
}

/** The app of the sessions that a request opens. */
export const clientOf = ({ clientId = anonymousApp }: Origin): string => clientId;

/** Whether a request may go on with a session: with its app, where apps are told apart. */
export const isOwnApp = (
  { clientId = anonymousApp }: Origin,
  session: { readonly clientId: string },
): boolean => clientId === anonymousApp || clientId === session.clientId;

const maxUserAgentLength = 512;

/** The user agent as it is stored: bounded, without control characters. */
export const storedUserAgent = (userAgent: string | undefined): string | null =>
  userAgent === undefined
    ? null
    : storable(cutText(userAgent, maxUserAgentLength)).replace(/\p{Cc}/gu, ' ');
