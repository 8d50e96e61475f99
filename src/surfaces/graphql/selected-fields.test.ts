/** What a query does not select is not rendered, and not counted. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { expectStatus } from '../../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  const fields = {
    title: 'String',
    secret: { type: 'String', select: false },
    other: { type: 'Relation', model: 'Sheet' },
    result: 'JSON',
  } as const;
  await platform.createSchema({ name: 'Sheet', fields });
  const first = (await platform.client.post('/database/Sheet', { title: 'one', result: { a: 1 } }))
    .body;
  await platform.client.post('/database/Sheet', { title: 'two', other: first._id });
});
afterAll(() => platform.close());

const ask = async (selection: string, args = '', variables: Json = {}): Promise<Json> => {
  const head = Object.keys(variables).length > 0 ? 'query ($yes: Boolean!) ' : '';
  const { body } = await platform.client.post('/graphql', {
    query: `${head}{ list: getDatabaseSheet${args} ${selection} }`,
    variables,
  });
  expect(body.errors).toBeUndefined();
  return body.data.list;
};

it.each([
  ['{ documents { title } }', { documents: [{ title: 'one' }, { title: 'two' }] }],
  ['{ count }', { count: 2 }],
  [
    '{ documents { __typename } n: count }',
    { documents: [{ __typename: 'Sheet' }, { __typename: 'Sheet' }], n: 2 },
  ],
  [
    '{ a: documents { t: title } documents { result } }',
    { a: [{ t: 'one' }, { t: 'two' }], documents: [{ result: { a: 1 } }, { result: null }] },
  ],
  [
    '{ documents { other { title result } _v } }',
    {
      documents: [
        { other: null, _v: 0 },
        { other: { title: 'one', result: { a: 1 } }, _v: 0 },
      ],
    },
  ],
])('%s', async (selection, expected) => {
  // A document that comes often is compiled: both ways give the same.
  for (let turn = 0; turn < 6; turn += 1) expect(await ask(selection)).toEqual(expected);
});

it('renders no more of what a relation leads to, at any depth, and keeps apart what differs only there', async () => {
  const ofOther = async (inner: string): Promise<Json> =>
    (await ask(`{ documents { other { ${inner} } } }`)).documents[1].other;
  for (let turn = 0; turn < 4; turn += 1) {
    expect(await ofOther('title')).toEqual({ title: 'one' });
    expect(await ofOther('result')).toEqual({ result: { a: 1 } });
    expect(await ofOther('createdAt title')).toEqual({
      createdAt: expect.stringMatching(/Z$/),
      title: 'one',
    });
    expect(await ofOther('_id other { _id }')).toEqual({ _id: expect.any(String), other: null });
    expect(await ofOther('a: title other { title other { result } }')).toEqual({
      a: 'one',
      other: null,
    });
  }
});

it('follows directives from call to call', async () => {
  const selection = '{ documents { title createdAt @include(if: $yes) } count @include(if: $yes) }';
  const whole = await ask(selection, '', { yes: true });
  expect(whole).toMatchObject({
    count: 2,
    documents: [{ title: 'one', createdAt: expect.any(String) }, {}],
  });
  expect(await ask(selection, '', { yes: false })).toEqual({
    documents: [{ title: 'one' }, { title: 'two' }],
  });
});

it('leaves order and pages as they are', async () => {
  expect(
    await ask(
      '{ documents { result } nextCursor }',
      '(sort: ["-title"], limit: 1, cursor: "start")',
    ),
  ).toMatchObject({
    documents: [{ result: null }],
    nextCursor: expect.any(String),
  });
});

it('sends the database what it needs, and no more', async () => {
  const statement = async (): Promise<Json> => {
    const { statements } = (await platform.admin.get('/database/insights')).body;
    return statements.find(
      ({ schema, operation }: Json) => schema === 'Sheet' && operation === 'select',
    )?.count;
  };
  const before = await statement();
  await ask('{ documents { title } }');
  expect((await statement()) - before).toBe(1);
});

/** The texts of operations that were read to make the answer. */
async function textsRead(work: () => Promise<unknown>): Promise<number> {
  const parse = vi.spyOn(JSON, 'parse');
  try {
    await work();
    return parse.mock.calls.filter(([text]) => /^\{"(?:documents|title|__typename|_id)"/.test(text))
      .length;
  } finally {
    parse.mockRestore();
  }
}

const answerTo = async (query: string, variables: Json = {}): Promise<string> =>
  JSON.stringify((await platform.client.post('/graphql', { query, variables })).body);

it.each([
  '{ getDatabaseSheet { documents { title _id } } }',
  '{ getDatabaseSheet(sort: ["-title"]) { documents { other { title _id } createdAt title } count } }',
  '{ getDatabaseSheet(cursor: "start", limit: 1) { documents { title } count nextCursor } }',
  '{ getDatabaseSheet { __typename documents { __typename title other { _id __typename } } } }',
  '{ getDatabaseSheet { documents { title ...more } count __typename } } fragment more on Sheet { result }',
  '{ one: getDatabaseSheet(limit: 1) { documents { result } } two: getDatabaseSheet(skip: 1) { documents { result } } }',
  'query ($limit: Int! = 1) { getDatabaseSheet(limit: $limit) { documents { title } } }',
])('answers what PostgreSQL rendered, as the executor would: %s', async (query) => {
  let plain = '';
  expect(await textsRead(async () => (plain = await answerTo(query)))).toBe(0);
  // A directive makes it a case for the executor.
  const executed = query.replace(/documents/g, 'documents @include(if: true)');
  let other = '';
  expect(await textsRead(async () => (other = await answerTo(executed)))).toBeGreaterThan(0);
  const withoutCursor = (text: string): string => text.replace(/"nextCursor":"[^"]*"/, '');
  expect(withoutCursor(plain)).toBe(withoutCursor(other));
  expect(plain).toContain('"data"');
});

it('answers one record so, with errors of other fields beside it, and takes other orders to the executor', async () => {
  const { documents } = await ask('{ documents { _id title } }', '(sort: ["title"])');
  const [one, two] = documents;
  const pair = `query ($a: ID!, $b: ID!) { a: getDatabaseSheetId(id: $a) { title other { _id title } } b: getDatabaseSheetId(id: $b) { title } }`;
  const gone = '01990000-0000-7000-8000-000000000000';
  let text = '';
  const run = async (variables: Json) => (text = await answerTo(pair, variables));
  expect(await textsRead(() => run({ a: two._id, b: gone }))).toBe(0);
  expect(JSON.parse(text)).toMatchObject({
    data: { a: { title: 'two', other: { _id: one._id, title: 'one' } }, b: null },
    errors: [{ path: ['b'], extensions: { conduitCode: 'RECORD_NOT_FOUND', code: 404 } }],
  });
  await run({ a: two._id });
  expect(JSON.parse(text).errors[0].extensions.code).toBe('BAD_USER_INPUT');
  const counted = '{ getDatabaseSheet { count documents { title other { title } } } }';
  for (let turn = 0; turn < 3; turn += 1)
    expect(await answerTo(counted)).toBe(
      '{"data":{"getDatabaseSheet":{"count":2,"documents":[{"title":"one","other":null},{"title":"two","other":{"title":"one"}}]}}}',
    );
});

it('shows what may not be read as null, and relations to it by their ids', async () => {
  const [anna, ben] = [await platform.registerUser(), await platform.registerUser()].map(
    ({ accessToken }) => accessToken,
  );
  const open = { enabled: true };
  const crudOperations = { create: open, read: open, update: open, delete: open };
  const own = { cms: { enabled: true, crudOperations }, authorization: open };
  await platform.createSchema({ name: 'Owner', fields: { name: 'String' }, conduitOptions: own });
  await platform.createSchema({
    name: 'Thing',
    fields: {
      inside: { n: 'Number' },
      notes: { type: 'String', access: { read: 'user' } },
      keeper: { type: 'Relation', model: 'Owner' },
      keepers: [{ type: 'Relation', model: 'Owner' }],
    },
  });
  const owners: string[] = [];
  for (const token of [anna, ben])
    owners.push(
      expectStatus(
        await platform.client.post('/database/Owner', { name: 'x' }, { token }),
        200,
        'owner',
      ).body._id,
    );
  const thing = { notes: 'n', inside: { n: 1 }, keeper: owners[1], keepers: owners };
  expectStatus(
    await platform.admin.post('/database/schemas/Thing/docs', { inputDocument: thing }),
    200,
    'thing',
  );
  const read = async (query: string, token?: string): Promise<string> =>
    JSON.stringify((await platform.client.post('/graphql', { query }, { token })).body);
  const plain =
    '{ getDatabaseThing { documents { keepers { name _id __typename } keeper { name } notes } } }';
  for (const query of [plain, plain.replace('documents', 'documents @skip(if: false)')])
    expect(JSON.parse(await read(query, anna)).data.getDatabaseThing.documents).toEqual([
      {
        keepers: [
          { name: 'x', _id: owners[0], __typename: 'Owner' },
          { name: null, _id: owners[1], __typename: 'Owner' },
        ],
        keeper: { name: null },
        notes: 'n',
      },
    ]);
  const forAll = '{ getDatabaseThing { documents { notes keeper { _id } inside { n } } } }';
  const documents = [{ notes: null, keeper: { _id: owners[1] }, inside: { n: 1 } }];
  for (const query of [forAll, forAll.replace(' inside { n }', '')])
    expect(JSON.parse(await read(query)).data.getDatabaseThing.documents[0]).toEqual(
      query === forAll ? documents[0] : { notes: null, keeper: { _id: owners[1] } },
    );
});

it('takes variables as the library does, given as they stand or in another way', async () => {
  const head = 'query ($id: ID!, $limit: Int = 1, $count: String)';
  const arguments_ = 'sort: ["title"], limit: $limit, count: $count';
  // The second goes to the executor, as its directive depends on the call.
  const [plain, other] = ['', ' @skip(if: false)'].map(
    (directive) =>
      `${head} { list: getDatabaseSheet(${arguments_}) { documents { title${directive} } } one: getDatabaseSheetId(id: $id) { title } }`,
  );
  const { _id: id } = (await platform.client.get('/database/Sheet?limit=1&sort=title')).body
    .documents[0];
  const all: readonly Json[] = [
    { id, limit: 2, count: 'none' },
    { id, count: 'none' },
    { id, limit: null, count: null },
    { id: 7, limit: 2 },
    { id, limit: '2' },
    { id, limit: 2.5 },
    { id, limit: 3_000_000_000 },
    { id, limit: 0 },
    { id, limit: 5_000 },
    { id, count: 'often' },
    { id: 'no id' },
    { id: 'a\u0000b' },
    { limit: 2 },
    { id, limit: 2, unused: {} },
    {},
  ];
  for (const variables of all) {
    const answers = await Promise.all(
      [plain, other].map((query) => platform.client.post('/graphql', { query, variables })),
    );
    const [first, second] = answers.map(({ status, body }) => ({
      status,
      data: body.data,
      errors: body.errors?.map(({ message }: Json) => message),
    }));
    expect([variables, first]).toEqual([variables, second]);
  }
});
