/** Fills a platform for the measurement: schemas, users, a custom endpoint, and rows through the public API. */
import type { Grant } from './bare-tables.ts';
import { draft, type Material } from './load.ts';
import type { Platform } from './platform.ts';

export const ROWS = 10_000;
const AUTHORS = 100;
const BATCH = 1000;
/** Many users take turns, as in an app. */
const USERS = 64;

export const readSchema = 'BenchArticle';
export const writeSchema = 'BenchDraft';
export const authorSchema = 'BenchAuthor';
/** Each user owns some of its rows and sees no others. */
export const sharedSchema = 'BenchShared';
export const endpointName = 'benchByAuthor';
export const growthSchema = 'BenchGrowth';
export const growthEndpoint = 'benchByCode';

export interface BenchData extends Material {
  readonly grants: readonly Grant[];
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
    crudOperations: {
      create: authenticated,
      read: authenticated,
      update: authenticated,
      delete: authenticated,
    },
  },
};

async function send<T>(
  method: string,
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<T> {
  const response = await fetch(url, {
    method,
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok)
    throw new Error(`${method} ${new URL(url).pathname} answered ${response.status}: ${text}`);
  return JSON.parse(text) as T;
}

const post = <T>(url: string, body: unknown, headers?: Record<string, string>): Promise<T> =>
  send<T>('POST', url, body, headers);

/** The limit is counted for each request all the same, but a load generator must not run into it. */
export const liftLimit = ({ adminOrigin, masterKey }: Platform): Promise<unknown> =>
  send(
    'PATCH',
    `${adminOrigin}/config/router`,
    { rateLimit: { maxRequests: 1_000_000 } },
    { masterkey: masterKey },
  );

async function createSchemas({ adminOrigin, masterKey }: Platform): Promise<void> {
  const schemas = [
    { name: authorSchema, fields: { name: { type: 'String', required: true } } },
    { name: readSchema, fields: articleFields },
    { name: writeSchema, fields: articleFields },
    {
      name: sharedSchema,
      fields: articleFields,
      conduitOptions: {
        cms: { ...conduitOptions.cms, query: { enabled: true, fields: ['published'] } },
        authorization: { enabled: true },
      },
    },
  ];
  for (const schema of schemas)
    await post(
      `${adminOrigin}/database/schemas`,
      { conduitOptions, ...schema },
      { masterkey: masterKey },
    );
}

/** Records of one author, as a page. */
const createEndpoint = ({ adminOrigin, masterKey }: Platform): Promise<unknown> =>
  post(
    `${adminOrigin}/database/customEndpoints`,
    {
      name: endpointName,
      operation: 0,
      selectedSchemaName: readSchema,
      inputs: [{ name: 'author', type: 'Relation', location: 1 }],
      query: {
        schemaField: 'author',
        operation: 0,
        comparisonField: { type: 'Input', value: 'author' },
      },
      authentication: true,
      paginated: true,
    },
    { masterkey: masterKey },
  );

export interface User {
  readonly userId: string;
  readonly accessToken: string;
}

async function createUser({ clientOrigin }: Platform, index: number): Promise<User> {
  const credentials = { email: `reader-${index}@bench.example`, password: crypto.randomUUID() };
  await post(`${clientOrigin}/authentication/local/new`, credentials);
  return post<User>(`${clientOrigin}/authentication/local`, credentials);
}

async function createRows(
  platform: Platform,
  token: string,
  schema: string,
  rows: readonly object[],
): Promise<string[]> {
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

/** Every user creates their share of the rows, which they then own. */
async function createShared(
  platform: Platform,
  users: readonly User[],
  authorIds: readonly string[],
): Promise<Grant[]> {
  const share = Math.ceil(ROWS / users.length);
  const grants: Grant[] = [];
  for (const [position, { userId, accessToken }] of users.entries()) {
    const rows = Array.from({ length: share }, (_, index) =>
      draft(position * share + index, authorIds[index % AUTHORS]),
    );
    const records = await createRows(platform, accessToken, sharedSchema, rows);
    grants.push(...records.map((record) => ({ user: userId, record })));
  }
  return grants;
}

export async function fill(platform: Platform): Promise<BenchData> {
  await liftLimit(platform);
  await createSchemas(platform);
  await createEndpoint(platform);
  const users: User[] = [];
  for (let index = 0; index < USERS; index += 1) users.push(await createUser(platform, index));
  const tokens = users.map(({ accessToken }) => accessToken);
  const writer = tokens[0] ?? '';
  const authors = Array.from({ length: AUTHORS }, (_, index) => ({ name: `Author ${index}` }));
  const authorIds = await createRows(platform, writer, authorSchema, authors);
  const articles = Array.from({ length: ROWS }, (_, index) =>
    draft(index, authorIds[index % AUTHORS]),
  );
  const grants = await createShared(platform, users, authorIds);
  return {
    tokens,
    userIds: users.map(({ userId }) => userId),
    authorIds,
    ids: await createRows(platform, writer, readSchema, articles),
    grants,
    sharedIds: grants.map(({ record }) => record),
    ownIds: Object.fromEntries(
      users.map(({ userId }) => [
        userId,
        grants.filter(({ user }) => user === userId).map(({ record }) => record),
      ]),
    ),
  };
}

const growthFields = { code: { type: 'String', index: { type: 'Ascending' } }, title: 'String' };

export async function createGrowthSchema(platform: Platform): Promise<void> {
  await liftLimit(platform);
  const body = { name: growthSchema, fields: growthFields, conduitOptions };
  await post(`${platform.adminOrigin}/database/schemas`, body, { masterkey: platform.masterKey });
}

export const createGrowthEndpoint = ({ adminOrigin, masterKey }: Platform): Promise<unknown> =>
  post(
    `${adminOrigin}/database/customEndpoints`,
    {
      name: growthEndpoint,
      operation: 0,
      selectedSchemaName: growthSchema,
      inputs: [{ name: 'code', type: 'String', location: 1 }],
      query: {
        schemaField: 'code',
        operation: 0,
        comparisonField: { type: 'Input', value: 'code' },
      },
    },
    { masterkey: masterKey },
  );

export const signUp = (platform: Platform): Promise<User> => createUser(platform, 0);
