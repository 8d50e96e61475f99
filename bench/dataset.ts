/** Fills a platform for the measurement: three schemas, users, and rows through the public API. */
import { draft } from './load.ts';
import type { Platform } from './platform.ts';

export const ROWS = 10_000;
const AUTHORS = 100;
const BATCH = 1000;
/** Many users take turns, as in an app. */
const USERS = 64;

export const readSchema = 'BenchArticle';
export const writeSchema = 'BenchDraft';
const authorSchema = 'BenchAuthor';

export interface BenchData {
  readonly tokens: readonly string[];
  readonly ids: readonly string[];
  readonly authorIds: readonly string[];
}

const articleFields = {
  title: { type: 'String', required: true },
  body: 'String',
  rank: { type: 'Number', required: true },
  published: { type: 'Boolean', required: true },
  tags: ['String'],
  publishedAt: 'Date',
  author: { type: 'Relation', model: authorSchema, required: true },
};

/** Everything needs a signed-in user. */
const authenticated = { enabled: true, authenticated: true };
const conduitOptions = {
  cms: {
    enabled: true,
    crudOperations: { create: authenticated, read: authenticated, update: authenticated, delete: authenticated },
  },
};

async function send<T>(method: string, url: string, body: unknown, headers: Record<string, string> = {}): Promise<T> {
  const response = await fetch(url, {
    method,
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${new URL(url).pathname} answered ${response.status}: ${text}`);
  return JSON.parse(text) as T;
}

const post = <T>(url: string, body: unknown, headers?: Record<string, string>): Promise<T> => send<T>('POST', url, body, headers);

/** The limit is counted for each request all the same, but a load generator must not run into it. */
const liftLimit = ({ adminOrigin, masterKey }: Platform): Promise<unknown> =>
  send('PATCH', `${adminOrigin}/config/router`, { rateLimit: { maxRequests: 1_000_000 } }, { masterkey: masterKey });

async function createSchemas({ adminOrigin, masterKey }: Platform): Promise<void> {
  const schemas = [
    { name: authorSchema, fields: { name: { type: 'String', required: true } } },
    { name: readSchema, fields: articleFields },
    { name: writeSchema, fields: articleFields },
  ];
  for (const schema of schemas) await post(`${adminOrigin}/database/schemas`, { ...schema, conduitOptions }, { masterkey: masterKey });
}

async function createUser({ clientOrigin }: Platform, index: number): Promise<string> {
  const credentials = { email: `reader-${index}@bench.example`, password: crypto.randomUUID() };
  await post(`${clientOrigin}/authentication/local/new`, credentials);
  const { accessToken } = await post<{ accessToken: string }>(`${clientOrigin}/authentication/local`, credentials);
  return accessToken;
}

async function createRows(platform: Platform, token: string, schema: string, rows: readonly object[]): Promise<string[]> {
  const ids: string[] = [];
  for (let start = 0; start < rows.length; start += BATCH) {
    const { docs } = await post<{ docs: { _id: string }[] }>(
      `${platform.clientOrigin}/database/${schema}/many`,
      { docs: rows.slice(start, start + BATCH) },
      { authorization: `Bearer ${token}` },
    );
    ids.push(...docs.map(({ _id }) => _id));
  }
  return ids;
}

export async function fill(platform: Platform): Promise<BenchData> {
  await liftLimit(platform);
  await createSchemas(platform);
  const tokens: string[] = [];
  for (let index = 0; index < USERS; index += 1) tokens.push(await createUser(platform, index));
  const writer = tokens[0] ?? '';
  const authors = Array.from({ length: AUTHORS }, (_, index) => ({ name: `Author ${index}` }));
  const authorIds = await createRows(platform, writer, authorSchema, authors);
  const articles = Array.from({ length: ROWS }, (_, index) => draft(index, authorIds[index % AUTHORS]));
  return { tokens, authorIds, ids: await createRows(platform, writer, readSchema, articles) };
}
