/** A small HTTP client for either surface: JSON in, JSON out, typed failures, patience with rate limits. */

/** The platform said no. The fields are those of its error body. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
  }
}

export interface Api {
  get<T>(path: string, query?: Query): Promise<T>;
  post<T>(path: string, body: unknown): Promise<T>;
  delete<T>(path: string, query?: Query): Promise<T>;
}

/** Values of the query part; an array becomes a repeated key. */
export type Query = Readonly<Record<string, string | number | boolean | readonly string[]>>;

const MAX_ATTEMPTS = 5;

function search(query: Query): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) parameters.append(key, String(one));
  }
  const text = parameters.toString();
  return text === '' ? '' : `?${text}`;
}

async function failure(response: Response): Promise<ApiError> {
  const body = (await response.json().catch(() => ({}))) as { code?: string; message?: string };
  return new ApiError(
    response.status,
    body.code ?? 'UNKNOWN',
    body.message ?? `The platform answered ${response.status}`,
  );
}

/** Sends until the platform does not ask to wait any more. */
async function patiently(send: () => Promise<Response>): Promise<Response> {
  for (let attempt = 1; ; attempt += 1) {
    const response = await send();
    if (response.status !== 429 || attempt === MAX_ATTEMPTS) return response;
    const seconds = Number(response.headers.get('retry-after') ?? 1);
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  }
}

/** A client of one surface that sends the given headers (the credential) with each request. */
export function createApi(origin: string, headers: Readonly<Record<string, string>> = {}): Api {
  async function send<T>(path: string, init: RequestInit): Promise<T> {
    const response = await patiently(() => fetch(origin + path, init)).catch((cause: unknown) => {
      throw new Error(`Nothing answers at ${origin}. Start the platform first: npm start`, {
        cause,
      });
    });
    if (!response.ok) throw await failure(response);
    return (await response.json()) as T;
  }

  return {
    get: (path, query = {}) => send(path + search(query), { headers }),
    post: (path, body) =>
      send(path, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    delete: (path, query = {}) => send(path + search(query), { method: 'DELETE', headers }),
  };
}
