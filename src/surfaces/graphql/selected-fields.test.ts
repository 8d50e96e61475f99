/** What a query does not select is not rendered, and not counted. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
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
