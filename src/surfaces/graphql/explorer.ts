/** The explorer: a page of our own to try GraphQL on, without any other address on the network. */
import { readFileSync } from 'node:fs';

const read = (file: string): string =>
  readFileSync(new URL(`explorer/${file}`, import.meta.url), 'utf8');

const types: ReadonlyMap<string, string> = new Map([
  ['explorer.js', 'text/javascript; charset=utf-8'],
  ['explorer.css', 'text/css; charset=utf-8'],
]);

/** A file of the page, or `undefined` for any other name. */
export function explorerAsset(
  name: string,
): { readonly text: string; readonly type: string } | undefined {
  const type = types.get(name);
  return type === undefined ? undefined : { text: read(name), type };
}

/** Nothing inline runs, and only this server may be called. */
export const explorerPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export const explorerPage = (): string => read('explorer.html');
