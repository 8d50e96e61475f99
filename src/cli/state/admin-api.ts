/** The admin surface as the command line calls it. */
import { StartError } from '../../kernel/start-error.ts';

export interface AdminApi {
  get(path: string, query: Readonly<Record<string, string>>): Promise<unknown>;
  post(path: string, body: unknown, query: Readonly<Record<string, string>>): Promise<unknown>;
}

interface Address {
  readonly url: string;
  readonly credential: Readonly<Record<string, string>>;
}

interface Refusal {
  readonly message?: string;
  readonly errors?: readonly { readonly path: string; readonly message: string }[];
}

/** Every refusal is a `StartError` that says what the platform said. */
export function adminApi({ url, credential }: Address): AdminApi {
  const send = async (
    path: string,
    query: Readonly<Record<string, string>>,
    init: RequestInit,
  ): Promise<unknown> => {
    const response = await fetch(`${url}${path}?${new URLSearchParams(query)}`, init).catch(
      (error: Error) => {
        const cause = error.cause as NodeJS.ErrnoException | undefined;
        throw new StartError(
          `${url} does not answer (${cause?.code ?? error.message}): does the platform run, and is --url right?`,
          {
            cause: error,
          },
        );
      },
    );
    const body: unknown = await response.json().catch(() => undefined);
    if (!response.ok)
      throw new StartError(refusalText(response.status, body as Refusal | undefined));
    return body;
  };
  return {
    get: (path, query) => send(path, query, { headers: credential }),
    post: (path, body, query) =>
      send(path, query, {
        method: 'POST',
        headers: { ...credential, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
  };
}

function refusalText(
  status: number,
  { message = 'no reason was given', errors = [] }: Refusal = {},
): string {
  const places = errors.map(({ path, message: text }) => `  ${path}: ${text}`);
  return places.length > 0
    ? [`Refused (${status}):`, ...places].join('\n')
    : `Refused (${status}): ${message}`;
}
