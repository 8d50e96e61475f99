/** GraphQL over HTTP: what the specification asks of a server, and what clients of this interface expect beyond it. */
import { serverAudits } from 'graphql-http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  answerOf,
  type GraphqlFixture,
  startGraphqlFixture,
} from '../../../test/support/graphql.ts';

let fixture: GraphqlFixture;
beforeAll(async () => {
  fixture = await startGraphqlFixture({ explorer: true, introspection: true });
});
afterAll(() => fixture.close());

describe('the audits of graphql-http', () => {
  it.each(serverAudits({ url: () => `${fixture.clientAddress}/graphql` }))(
    '$id $name',
    async (audit) => {
      expect(await audit.fn()).toMatchObject({ status: 'ok' });
    },
  );
});

const get = async (parameters: Record<string, string>, headers: Record<string, string> = {}) =>
  answerOf(await fixture.client(`/graphql?${new URLSearchParams(parameters)}`, { headers }));

describe('the form of an answer', () => {
  it.each([
    [undefined, 400, 'application/json'],
    ['*/*', 400, 'application/json'],
    ['application/json, text/plain, */*', 400, 'application/json'],
    ['application/json', 200, 'application/json'],
    [
      'application/graphql-response+json, application/json;q=0.9',
      400,
      'application/graphql-response+json',
    ],
    ['application/json;q=0.2, application/graphql-response+json;q=0.1', 200, 'application/json'],
    ['image/png', 400, 'application/json'],
  ])('for Accept %s: an invalid document is %d as %s', async (accept, status, type) => {
    const answer = await fixture.ask('{ nothing }', {}, accept === undefined ? {} : { accept });
    expect(answer.status).toBe(status);
    expect(answer.headers.get('content-type')).toBe(`${type}; charset=utf-8`);
    expect(answer.errors[0].extensions.code).toBe('GRAPHQL_VALIDATION_FAILED');
    expect(answer.errors[0].locations).toEqual([{ line: 1, column: 3 }]);
  });

  it('is GraphQL also for requests that are refused before they are read', async () => {
    expect((await fixture.send('{')).errors[0].extensions).toMatchObject({
      code: 400,
      conduitCode: 'JSON_MALFORMED',
    });
    expect(
      (await fixture.send({ query: 'x'.repeat(1_100_000) })).errors[0].extensions,
    ).toMatchObject({ code: 413 });
    expect(
      (await fixture.send('query', { 'content-type': 'text/plain' })).errors[0].extensions,
    ).toMatchObject({ code: 415 });
  });
});

describe('GET', () => {
  it('answers queries', async () => {
    const answer = await get({
      query: 'query A($n: Number) { getDatabaseBook(limit: $n) { count } } query B { __typename }',
      operationName: 'A',
      variables: '{"n":3}',
    });
    expect(answer.data).toEqual({ getDatabaseBook: { count: 1 } });
  });

  it('refuses mutations', async () => {
    const answer = await get({ query: 'mutation { postEcho(params: { value: 1 }) { value } }' });
    expect({ status: answer.status, allow: answer.headers.get('allow') }).toEqual({
      status: 405,
      allow: 'POST',
    });
  });

  it('wants a document', async () => {
    expect((await get({})).status).toBe(400);
    expect((await get({ query: '{ __typename }', variables: '[' })).status).toBe(400);
  });
});

describe('several operations in a document', () => {
  const query =
    'query A { getAb { result } } mutation B { postEcho(params: { value: 1 }) { value } }';

  it('need a name', async () => {
    expect((await fixture.ask(query)).errors[0].extensions.code).toBe(
      'OPERATION_RESOLUTION_FAILURE',
    );
    expect((await fixture.send({ query, operationName: 'C' })).errors[0].extensions.code).toBe(
      'OPERATION_RESOLUTION_FAILURE',
    );
  });

  it('are run one by one, each with the rights that it needs', async () => {
    expect((await fixture.send({ query, operationName: 'A' })).data).toEqual({
      getAb: { result: '/ab' },
    });
    expect(
      (
        await fixture.send({
          query: 'query A { getAb { result } } query B { getMine { result } }',
          operationName: 'B',
        })
      ).errors[0].extensions.code,
    ).toBe(401);
  });
});

describe('a list of operations', () => {
  const post = async (body: unknown) => {
    const answer = await fixture.send(body);
    return { status: answer.status, body: JSON.parse(answer.text) };
  };

  it('is answered by a list, in its order, with errors in the places of those that fail', async () => {
    const { status, body } = await post([
      { query: '{ getAb { result } }' },
      { query: '{ nothing }' },
      {
        query: 'mutation($v: JSONObject) { postEcho(params: { value: $v }) { value } }',
        variables: { v: 2 },
      },
      { query: '{ getMine { result } }' },
    ]);
    expect(status).toBe(200);
    expect(body).toMatchObject([
      { data: { getAb: { result: '/ab' } } },
      { errors: [{ extensions: { code: 'GRAPHQL_VALIDATION_FAILED' } }] },
      { data: { postEcho: { value: 2 } } },
      { errors: [{ extensions: { code: 401 } }] },
    ]);
  });

  it('shares the limits of one request, and holds 1 to 10 operations', async () => {
    const query = '{ getDatabaseBook(limit: 400) { documents { title } } }';
    const { body } = await post([{ query }, { query }, { query }]);
    expect(body[1].data.getDatabaseBook.documents).toBeDefined();
    expect(body[2].errors[0].extensions.code).toBe('GRAPHQL_LIMIT_EXCEEDED');
    for (const list of [[], Array.from({ length: 11 }, () => ({ query: '{ __typename }' }))])
      expect((await post(list)).body.errors[0].extensions.code).toBe(400);
    expect((await post([null])).status).toBe(400);
  });
});

it('tells clients with persisted queries to send the document', async () => {
  const extensions = { persistedQuery: { version: 1, sha256Hash: 'a'.repeat(64) } };
  const { errors } = await fixture.send({ extensions });
  expect(errors).toMatchObject([
    {
      message: 'PersistedQueryNotSupported',
      extensions: { code: 'PERSISTED_QUERY_NOT_SUPPORTED' },
    },
  ]);
  expect((await fixture.send({ query: '{ __typename }', extensions })).data).toEqual({
    __typename: 'Query',
  });
  expect((await fixture.send({})).errors[0].extensions.errors).toMatchObject([{ path: 'query' }]);
});

it('says where its scalars are specified', async () => {
  const { data } = await fixture.ask('{ __schema { types { name specifiedByURL } } }');
  const specified = data.__schema.types.filter(
    (type: { specifiedByURL: unknown }) => type.specifiedByURL,
  );
  expect(specified.map(({ name }: { name: string }) => name).sort()).toEqual([
    'BigInt',
    'Date',
    'Decimal',
    'JSONObject',
    'Number',
  ]);
});

describe('fields', () => {
  it('call their operation once, with the relations that are selected', async () => {
    const before = fixture.calls.length;
    await fixture.ask(
      '{ getDatabaseBook(populate: ["publisher"]) { documents { title author { name best { title } } authors { _id } } } }',
    );
    expect(fixture.calls.slice(before).map(({ id, query }) => [id, query.populate])).toEqual([
      ['example.Book.list', ['publisher', 'author.best']],
    ]);
  });

  it('serve bare arrays, odd names and arguments that share a name', async () => {
    expect((await fixture.ask('{ getNumbers }')).data).toEqual({ getNumbers: [1, 2.5] });
    const { data } = await fixture.ask(
      'mutation { postEcho(params: { value: [1, { a: null }] }, params2: "q") { value odd_name } }',
    );
    expect(data.postEcho).toEqual({ value: [1, { a: null }], odd_name: 'odd' });
    expect(fixture.calls.at(-1)?.query).toEqual({ params: 'q' });
  });
});

describe('the explorer', () => {
  it('is a page that loads nothing from elsewhere', async () => {
    const page = await fixture.client('/graphql', {
      headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' },
    });
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page.headers.get('content-security-policy')).toContain("script-src 'self'");
    const addresses = [...(await page.text()).matchAll(/(?:src|href)="([^"]+)"/g)].map(
      ([, address]) => address ?? '',
    );
    expect(addresses.filter((address) => !address.startsWith('/graphql/assets/'))).toEqual([
      'data:,',
    ]);
    for (const address of addresses.slice(1))
      expect((await fixture.client(address)).status).toBe(200);
    expect((await fixture.client('/graphql/assets/..%2Fserve.ts')).status).toBe(404);
  });

  it('is not there when it is switched off', async () => {
    const closed = await startGraphqlFixture();
    try {
      expect((await closed.client('/graphql', { headers: { accept: 'text/html' } })).status).toBe(
        400,
      );
      expect((await closed.client('/graphql/assets/explorer.js')).status).toBe(404);
    } finally {
      await closed.close();
    }
  });
});

it('is not there at all when GraphQL is switched off', async () => {
  const off = await startGraphqlFixture({ enabled: false });
  try {
    expect((await off.ask('{ __typename }')).status).toBe(404);
  } finally {
    await off.close();
  }
});
