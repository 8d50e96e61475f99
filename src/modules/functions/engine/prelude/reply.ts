/**
 * What code may say of its answer beside the data. It is refused where it is said, with its place; the platform asks the
 * same again, because what runs in a sandbox can leave these checks out.
 */

const replyWords: readonly string[] = ['status', 'headers', 'cookies', 'redirect'];
const maxHeaders = 100;
/** Characters of all of them: what most servers and clients take. */
const maxHeaderCharacters = 16_384;
const maxCookies = 20;

const mediaType = /^[a-z]{1,40}\/[a-z0-9.+-]{1,80}$/;
const typeWithCharset = /^[a-z]{1,40}\/[a-z0-9.+-]{1,80}(?:; ?charset=[a-z0-9-]{1,40})?$/i;
const headerName = /^[a-z0-9-]{1,64}$/;
const headerValue = /^[\t\x20-\x7e]{0,4000}$/;

/** Headers that the platform keeps to itself, and what to do instead. */
const byOperators = 'operators set it';
const ownHeaders: ReadonlyMap<string, string> = new Map([
  ['content-length', 'it follows from the data'],
  ['connection', 'it belongs to the connection'],
  ['transfer-encoding', 'it belongs to the connection'],
  ['set-cookie', 'use cookies: [{name, value}]'],
  ['strict-transport-security', byOperators],
  ['content-security-policy', byOperators],
  ['x-content-type-options', byOperators],
  ['x-frame-options', byOperators],
]);

export const isMediaType = (type: unknown): type is string =>
  typeof type === 'string' && mediaType.test(type);

export const isReplyStatus = (status: unknown): status is number =>
  Number.isInteger(status) && Number(status) >= 200 && Number(status) <= 599;

const redirectStatuses: readonly unknown[] = [301, 302, 303, 307, 308];
export const isRedirectStatus = (status: unknown): status is number =>
  redirectStatuses.includes(status);

export const isHeaderText = (value: unknown): value is string =>
  typeof value === 'string' && headerValue.test(value);

/** Why the answer cannot have this header; nothing where it can. */
function headerProblem(name: string, value: string): string | undefined {
  if (!headerName.test(name)) return `${name.slice(0, 64)} is no name of a header`;
  if (!headerValue.test(value)) return `the value of ${name} has characters that no header has`;
  const instead = name.startsWith('access-control-') ? byOperators : ownHeaders.get(name);
  if (instead !== undefined) return `res does not set ${name}: ${instead}`;
  if (name === 'content-type' && !typeWithCharset.test(value))
    return 'content-type is a type such as text/html or text/html; charset=utf-8';
  return undefined;
}

export type ReplyHeaders = readonly (readonly [name: string, value: string])[];

/** Names in lower case. Throws what is wrong. */
export function readHeaders(headers: unknown): ReplyHeaders {
  if (headers === undefined || headers === null) return [];
  if (typeof headers !== 'object' || Array.isArray(headers))
    throw new TypeError('res takes headers as an object: {"x-colour": "green"}');
  const found = Object.entries(headers).map(
    ([name, value]) => [name.toLowerCase(), String(value)] as const,
  );
  const characters = found.reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0);
  if (found.length > maxHeaders || characters > maxHeaderCharacters)
    throw new RangeError(
      `An answer has at most ${maxHeaders} headers, of ${maxHeaderCharacters} characters together`,
    );
  for (const [name, value] of found) {
    const problem = headerProblem(name, value);
    if (problem !== undefined) throw new TypeError(problem);
  }
  return found;
}

/**
 * What code says about its answer, with its cookies as a list. A slip in it would be an answer with 200: throws what is
 * wrong.
 */
export function readReply(data: unknown, options: unknown): unknown {
  if (options === undefined || options === null) return undefined;
  if (typeof options !== 'object' || Array.isArray(options))
    throw new TypeError('After the data res takes {status, headers, cookies, redirect}');
  const stray = Object.keys(options).find((word) => !replyWords.includes(word));
  if (stray !== undefined)
    throw new TypeError(`res does not know ${stray}: it takes status, headers, cookies, redirect`);
  const { status, headers, redirect } = options as Readonly<Record<string, unknown>>;
  requireStatus(status, redirect);
  const cookies = readCookies((options as Readonly<Record<string, unknown>>).cookies);
  const type = readHeaders(headers).find(([name]) => name === 'content-type')?.[1];
  if (type !== undefined && typeof data !== 'string' && !type.startsWith('application/json'))
    throw new TypeError('content-type is for texts; of bytes return {contentType, base64}');
  return cookies === undefined ? options : { ...options, cookies };
}

/** `{colour: 'green'}` says the same as `[{name: 'colour', value: 'green'}]`. */
function readCookies(cookies: unknown): readonly unknown[] | undefined {
  if (cookies === undefined) return undefined;
  const list =
    typeof cookies !== 'object' || cookies === null || Array.isArray(cookies)
      ? cookies
      : Object.entries(cookies).map(([name, value]) => ({ name, value }));
  if (!Array.isArray(list) || list.length > maxCookies || !list.every(isCookie))
    throw new TypeError(
      `res takes at most ${maxCookies} cookies: [{name, value}] or {name: value}`,
    );
  return list;
}

const isCookie = (one: unknown): boolean =>
  typeof one === 'object' && one !== null && typeof Reflect.get(one, 'value') === 'string';

function requireStatus(status: unknown, redirect: unknown): void {
  if (status !== undefined && !isReplyStatus(status))
    throw new TypeError('res takes a status of 200 to 599');
  if (redirect !== undefined && !isHeaderText(redirect))
    throw new TypeError('res takes an address as redirect, and no other characters');
  if (redirect !== undefined && status !== undefined && !isRedirectStatus(status))
    throw new TypeError(`A redirection has a status of ${redirectStatuses.join(', ')}`);
}
