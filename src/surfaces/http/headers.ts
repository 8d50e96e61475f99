/**
 * Response headers as one flat list (`[name, value, ...]`), the form that
 * `writeHead` takes without building an object first.
 */
export type HeaderList = string[];

/**
 * Sent with everything, refusals included. The policy suits JSON: nothing in an answer may be run,
 * framed or used as a page. Pages of our own (the API viewer) replace it.
 */
export const securityHeaders: readonly string[] = [
  'content-security-policy',
  "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options',
  'nosniff',
  'x-frame-options',
  'DENY',
  'referrer-policy',
  'no-referrer',
  'cross-origin-opener-policy',
  'same-origin',
  'cache-control',
  'no-store',
];

/** Replaces the header of that name, or adds it. */
export function setHeader(list: HeaderList, name: string, value: string): void {
  for (let i = 0; i < list.length; i += 2) {
    if (list[i] === name) {
      list[i + 1] = value;
      return;
    }
  }
  list.push(name, value);
}
