/** The admin surface as the command line calls it: where it is, who asks, and what it answers. */
import { readFile } from 'node:fs/promises';
import { StartError } from '../kernel/start-error.ts';
import { withoutEnd } from '../kernel/text.ts';
import { visible, visibleLines } from './visible.ts';

export interface AdminApi {
  get(path: string, query: Readonly<Record<string, string>>): Promise<unknown>;
  post(path: string, body: unknown, query?: Readonly<Record<string, string>>): Promise<unknown>;
  /** `seen`: the version that is changed; a refusal where there is another one by now. */
  patch(path: string, body: unknown, seen?: number): Promise<unknown>;
  delete(path: string, seen?: number): Promise<unknown>;
  /** An answer that goes on. */
  open(path: string, signal: AbortSignal): Promise<Response>;
}

export interface Address {
  readonly url: string;
  readonly credential: Readonly<Record<string, string>>;
}

interface Refusal {
  readonly message?: string;
  readonly errors?: readonly { readonly path: string; readonly message: string }[];
}

/** Every refusal is a `StartError` that says what the platform said. */
export function adminApi({ url, credential }: Address): AdminApi {
  const open = async (path: string, init: RequestInit): Promise<Response> => {
    // Whoever is led elsewhere would hand over the credential there.
    const sent = fetch(`${url}${path}`, { ...init, redirect: 'manual' });
    const response = await sent.catch((error: Error) => {
      const cause = error.cause as NodeJS.ErrnoException | undefined;
      throw new StartError(
        `${url} does not answer (${cause?.code ?? error.message}): does the platform run, and is --url right?`,
        { cause: error },
      );
    });
    if (response.ok) return response;
    if (response.status >= 300 && response.status < 400)
      throw new StartError(
        `${url} leads elsewhere (${response.status}, ${response.headers.get('location') ?? 'nowhere'}): say the address of the admin surface itself with --url`,
      );
    const body: unknown = await response.json().catch(() => undefined);
    throw new StartError(refusalText(response.status, body as Refusal | undefined));
  };
  const send = async (
    path: string,
    method: string,
    { body, seen }: { readonly body?: unknown; readonly seen?: number | undefined } = {},
  ): Promise<unknown> => {
    const isSent = body !== undefined;
    const headers = {
      ...credential,
      ...(isSent && { 'content-type': 'application/json' }),
      ...(seen !== undefined && { 'if-match': `"${seen}"` }),
    };
    const response = await open(path, {
      ...{ method, headers },
      ...(isSent && { body: JSON.stringify(body) }),
    });
    return answered(url, await response.text());
  };
  const withQuery = (path: string, query: Readonly<Record<string, string>>): string =>
    `${path}?${new URLSearchParams(query)}`;
  return {
    get: (path, query) => send(withQuery(path, query), 'GET'),
    post: (path, body, query = {}) => send(withQuery(path, query), 'POST', { body }),
    patch: (path, body, seen) => send(path, 'PATCH', { body, seen }),
    delete: (path, seen) => send(path, 'DELETE', { seen }),
    open: (path, signal) => open(path, { headers: credential, signal }),
  };
}

/** What stands there may be another program, or a page of a proxy. */
function answered(url: string, text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch (cause) {
    throw notThePlatform(url, 'no JSON', cause);
  }
}

export const notThePlatform = (url: string, what: string, cause?: unknown): StartError =>
  new StartError(`${url} answers ${what}: is --url the admin surface of the platform?`, { cause });

function refusalText(
  status: number,
  { message = 'no reason was given', errors = [] }: Refusal = {},
): string {
  const places = errors.map(
    ({ path, message: text }) => `  ${visible(path)}: ${visibleLines(text)}`,
  );
  return places.length > 0
    ? [`Refused (${status}):`, ...places].join('\n')
    : `Refused (${status}): ${visibleLines(message)}`;
}

/** What users are told of the address of a command. */
export const addressUsage =
  '--url <address of the admin surface>   PENSTOCK_URL, else this machine at ADMIN_HTTP_PORT (3030)';

/** The admin surface that is meant. Throws `StartError` for what is no address. */
export function addressOf(given: string | undefined, environment: NodeJS.ProcessEnv): string {
  const { PENSTOCK_URL, ADMIN_HTTP_PORT } = environment;
  // 0 is a port that the platform picks itself.
  const here = `http://127.0.0.1:${Number(ADMIN_HTTP_PORT) > 0 ? ADMIN_HTTP_PORT : 3030}`;
  const text = given ?? (PENSTOCK_URL || here);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.username || url?.password)
    throw new StartError(
      'The address holds a user or a password: leave these out, and set PENSTOCK_TOKEN or MASTER_KEY',
    );
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash)
    throw new StartError(`"${text}" is no address such as https://admin.example.com`);
  return withoutEnd(text, '/');
}

/** Never an argument of its own: arguments are seen by everybody on the machine. */
export async function credentialOf(
  file: string | undefined,
  environment: NodeJS.ProcessEnv,
): Promise<Readonly<Record<string, string>>> {
  const token = file === undefined ? environment.PENSTOCK_TOKEN : (await contentOf(file)).trim();
  // Whoever names a file does not mean the master key, which may do more.
  if (file !== undefined && token === '')
    throw new StartError(`${file} is empty: write a token there`);
  if (token) return { authorization: `Bearer ${sendable(token, file ?? 'PENSTOCK_TOKEN')}` };
  if (environment.MASTER_KEY) return { masterkey: sendable(environment.MASTER_KEY, 'MASTER_KEY') };
  throw new StartError(
    'Who is calling? Set PENSTOCK_TOKEN (an API token), or MASTER_KEY, or say --token-file',
  );
}

/** What refuses a header repeats it in its message. @throws StartError that does not. */
function sendable(secret: string, source: string): string {
  if (/^[\x20-\x7e\x80-\xff]+$/.test(secret)) return secret;
  throw new StartError(
    `What ${source} holds cannot be sent in a header: it has line breaks or other characters than those of Latin-1`,
  );
}

export const contentOf = (file: string): Promise<string> =>
  readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new StartError(`${file} cannot be read (${error.code ?? error.message})`, {
      cause: error,
    });
  });
