/**
 * What one request may ask for (CWE-770, CWE-674, CWE-200): Directus GHSA-6q22-g298-grjh (alias amplification),
 * Parse GHSA-cmj3-wx7h-ffvg and GHSA-9xp9-j92r-p88v (nesting), CVE-2026-47248 (suggestions leak the schema).
 */
import fc from 'fast-check';
import { getIntrospectionQuery } from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type GraphqlAnswer,
  type GraphqlFixture,
  startGraphqlFixture,
} from '../../../test/support/graphql.ts';

const nested = (levels: number): string => {
  const names = [
    'getDatabaseBook',
    'documents',
    ...Array.from({ length: levels }, (_, i) => (i % 2 === 0 ? 'author' : 'best')),
  ];
  return `{ ${names.slice(0, levels - 1).join(' { ')} { _id ${'}'.repeat(levels)}`;
};

const refused = ({ status, data, errors }: GraphqlAnswer, code: string | number): void => {
  expect({ status, data, code: errors?.[0]?.extensions.code }).toEqual({
    status: 400,
    data: undefined,
    code,
  });
};

describe('a closed GraphQL surface', () => {
  let fixture: GraphqlFixture;
  beforeAll(async () => {
    fixture = await startGraphqlFixture();
  });
  afterAll(() => fixture.close());
  const { ask, send } = {
    ask: (...args: Parameters<GraphqlFixture['ask']>) => fixture.ask(...args),
    send: (body: unknown) => fixture.send(body),
  };

  it('takes 10 levels of fields and no 11', async () => {
    expect((await ask(nested(10))).errors).toBeUndefined();
    refused(await ask(nested(11)), 'GRAPHQL_LIMIT_EXCEEDED');
  });

  it('counts levels through fragments', async () => {
    const fragments =
      'fragment A on Author { best { author { best { author { best { ...B } } } } } } fragment B on Book { author { best { author { _id } } } }';
    refused(
      await ask(`{ getDatabaseAuthor { documents { ...A } } } ${fragments}`),
      'GRAPHQL_LIMIT_EXCEEDED',
    );
  });

  it('takes 20 aliases and no 21, spread or not', async () => {
    const aliased = (n: number) =>
      Array.from({ length: n }, (_, i) => `a${i}: getAb { result }`).join(' ');
    expect(Object.keys((await ask(`{ ${aliased(20)} }`)).data)).toHaveLength(20);
    refused(await ask(`{ ${aliased(21)} }`), 'GRAPHQL_LIMIT_EXCEEDED');
    const inner = Array.from({ length: 11 }, (_, i) => `a${i}: title`).join(' ');
    refused(
      await ask(
        `{ a: getDatabaseBook { documents { ...F } } b: getDatabaseBook { documents { ...F } } } fragment F on Book { ${inner} }`,
      ),
      'GRAPHQL_LIMIT_EXCEEDED',
    );
  });

  it('takes 1,000 objects and no 1,001', async () => {
    const query = 'query($n: Number) { getDatabaseBook(limit: $n) { documents { _id } } }';
    expect((await ask(query, { n: 999 })).errors).toBeUndefined();
    refused(await ask(query, { n: 1_000 }), 'GRAPHQL_LIMIT_EXCEEDED');
    refused(
      await ask('{ getDatabaseBook(limit: 1000000000) { documents { _id } } }'),
      'GRAPHQL_LIMIT_EXCEEDED',
    );
    refused(
      await ask('query($n: Number = 1000000) { getDatabaseBook(limit: $n) { documents { _id } } }'),
      'GRAPHQL_LIMIT_EXCEEDED',
    );
    refused(
      await ask('{ getDatabaseBook(limit: 100) { documents { authors { name } } } }'),
      'GRAPHQL_LIMIT_EXCEEDED',
    );
    expect(
      (await ask('{ getDatabaseBook(limit: 90) { documents { authors { name } } } }')).errors,
    ).toBeUndefined();
  });

  it('does not expand fragments that multiply', { timeout: 5_000 }, async () => {
    const bombs = Array.from(
      { length: 60 },
      (_, i) => `fragment F${i} on Book { ...F${i + 1} ...F${i + 1} }`,
    ).join(' ');
    const answer = await ask(
      `{ getDatabaseBook { documents { ...F0 } } } ${bombs} fragment F60 on Book { x: title }`,
    );
    refused(answer, 'GRAPHQL_LIMIT_EXCEEDED');
  });

  it.each([
    [
      'a fragment in itself',
      '{ getDatabaseBook { documents { ...F } } } fragment F on Book { ...F }',
    ],
    ['fragments in a circle', '{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }'],
    ['an unknown field', '{ nothing }'],
    ['an unknown directive', '{ getAb @stream { result } }'],
    ['a subscription', 'subscription { getAb { result } }'],
    ['a schema definition', 'type Query { a: String }'],
    ['the schema', '{ __schema { types { name } } }'],
    ['a type', '{ __type(name: "Book") { name } }'],
  ])('refuses %s', async (_, query) => refused(await ask(query), 'GRAPHQL_VALIDATION_FAILED'));

  it.each([
    ['a megabyte of query', `{ ${'getAb { result } '.repeat(50_000)}}`.slice(0, 1_000_000)],
    [
      'a thousand repeated fields',
      `{ getDatabaseBook { documents { ${'title '.repeat(1_100)} } } }`,
    ],
    ['brackets without end', '{ getAb '.repeat(3_000)],
    ['lists without end', `{ getAb(a: ${'['.repeat(4_000)}) }`],
    ['directives without end', `{ getAb ${'@include(if: true) '.repeat(60)} { result } }`],
    ['many roots', `{ ${Array.from({ length: 21 }, () => 'getAb { result }').join(' ')} }`],
  ])('refuses %s', async (_, query) => refused(await ask(query), 'GRAPHQL_LIMIT_EXCEEDED'));

  it('refuses more tokens than anybody writes', async () => {
    refused(await ask(`{ ${'a '.repeat(6_000)} }`), 'GRAPHQL_PARSE_FAILED');
  });

  it.each([
    ['an empty list', []],
    ['no document', {}],
    ['a document that is no text', { query: { a: 1 } }],
    ['variables that are a list', { query: '{ __typename }', variables: [] }],
    [
      'prototype names in variables',
      '{"query":"{ __typename }","variables":{"__proto__":{"a":1}}}',
    ],
  ])('refuses %s', async (_, body) => refused(await send(body), 400));

  it('says nothing about names that it was not asked for', async () => {
    for (const query of [
      '{ getDatabaseBok { count } }',
      '{ getDatabaseBook(limt: 1) { count } }',
      'mutation { postEcho(params: { valu: 1 }) { value } }',
      'query($a: Boook) { __typename }',
    ]) {
      const { text, status } = await ask(query);
      expect({ query, status, suggests: /Did you mean/.test(text) }).toEqual({
        query,
        status: 400,
        suggests: false,
      });
    }
    const coerced = await ask('mutation($p: postEchoRequest!) { postEcho(params: $p) { value } }', {
      p: { valu: 1 },
    });
    expect(coerced.text).not.toContain('Did you mean');
    refused(coerced, 'BAD_USER_INPUT');
  });

  it('keeps prototype names what they are: names', async () => {
    const { data } = await ask(
      '{ __proto__: getAb { constructor: result __proto__: result } toString: getAb { result } }',
    );
    expect(JSON.stringify(data)).toBe(
      JSON.stringify(
        JSON.parse(
          '{"__proto__":{"constructor":"/ab","__proto__":"/ab"},"toString":{"result":"/ab"}}',
        ),
      ),
    );
    const echoed = await ask(
      'mutation($v: JSONObject) { postEcho(params: { value: $v }) { value } }',
      {
        v: { constructor: { prototype: 1 } },
      },
    );
    expect(echoed.errors[0].extensions).toMatchObject({ code: 400, errors: [{ rule: 'name' }] });
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
  });

  it('shows nothing of a failure of ours', async () => {
    const { data, errors, text } = await ask('{ getCrash { result } getAb { result } }');
    expect(data).toEqual({ getCrash: null, getAb: { result: '/ab' } });
    expect(errors[0].extensions).toMatchObject({ code: 500, conduitCode: 'INTERNAL_SERVER_ERROR' });
    expect(text).not.toContain('select');
  });

  it('answers malformed documents with 400, never with 500', async () => {
    const word = fc.constantFrom(
      '{',
      '}',
      '(',
      ')',
      '[',
      ']',
      '"',
      '"""',
      '#',
      '$a',
      ':',
      '...',
      '@skip',
      '!',
      '=',
      'query',
      'mutation',
      'fragment',
      'on',
      'Book',
      'getAb',
      'result',
      'getDatabaseBook',
      'documents',
      'limit: 1',
      '-1e99',
      '\\',
      '\u0000',
      '\ud800',
      'null',
      '__proto__',
      '\n',
    );
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.array(word, { maxLength: 40 }).map((words) => words.join(' ')),
        ),
        fc.anything(),
        async (query, value) => {
          const variables = JSON.parse(JSON.stringify({ a: value ?? null }));
          const { status, errors } = await ask(query, variables);
          expect([200, 400]).toContain(status);
          for (const error of errors ?? [])
            expect(error).toMatchObject({
              message: expect.any(String),
              extensions: { requestId: expect.any(String) },
            });
        },
      ),
      { numRuns: 400 },
    );
  });
});

describe('an open GraphQL surface', () => {
  it('answers introspection, twice in a request at most', async () => {
    const fixture = await startGraphqlFixture({ introspection: true });
    try {
      expect((await fixture.ask(getIntrospectionQuery())).data.__schema.queryType.name).toBe(
        'Query',
      );
      expect((await fixture.ask('{ getDatabaseBok { count } }')).errors[0].message).toContain(
        'Did you mean',
      );
      refused(
        await fixture.ask(
          '{ a: __schema { types { name } } b: __schema { types { name } } c: __schema { types { name } } }',
        ),
        'GRAPHQL_LIMIT_EXCEEDED',
      );
      const circle =
        '{ __schema { types { fields { type { fields { type { fields { type { name } } } } } } } } }';
      refused(await fixture.ask(circle), 'GRAPHQL_VALIDATION_FAILED');
    } finally {
      await fixture.close();
    }
  });
});

describe('rate limits', () => {
  it('count every field of a request, under whatever name', async () => {
    const fixture = await startGraphqlFixture(
      {},
      { limits: () => ({ standard: { requests: 30, seconds: 3_600 } }) },
    );
    try {
      const twenty = `{ ${Array.from({ length: 20 }, (_, i) => `a${i}: getAb { result }`).join(' ')} }`;
      expect((await fixture.ask(twenty)).errors).toBeUndefined();
      const second = await fixture.ask(twenty);
      expect(second.errors).toHaveLength(10);
      expect(second.errors[0].extensions).toMatchObject({ code: 429, conduitCode: 'RATE_LIMIT' });
      expect(Number(second.headers.get('retry-after'))).toBeGreaterThan(0);
      const third = await fixture.ask('{ __typename }');
      expect(third.status).toBe(429);
      expect((await fixture.client('/ab')).status).toBe(429);
    } finally {
      await fixture.close();
    }
  });

  it('count every operation of a list, of which the first is paid with the request', async () => {
    const fixture = await startGraphqlFixture(
      {},
      { limits: () => ({ standard: { requests: 12, seconds: 3_600 } }) },
    );
    try {
      const ten = Array.from({ length: 10 }, () => ({ query: '{ getAb { result } }' }));
      const first = await fixture.send(ten);
      expect(JSON.parse(first.text)).toEqual(
        ten.map(() => ({ data: { getAb: { result: '/ab' } } })),
      );
      const second: { errors?: unknown }[] = JSON.parse((await fixture.send(ten)).text);
      expect(second.map(({ errors }) => errors === undefined)).toEqual(ten.map((_, i) => i < 2));
    } finally {
      await fixture.close();
    }
  });

  it('of single operations hold for aliases and for both ways in', async () => {
    const fixture = await startGraphqlFixture();
    try {
      const login = (i: number) =>
        `a${i}: postLogin(params: { email: "a@example.com" }) { result }`;
      const { errors } = await fixture.ask(
        `mutation { ${Array.from({ length: 5 }, (_, i) => login(i)).join(' ')} }`,
      );
      expect(errors.map((error: { path: unknown[] }) => error.path[0])).toEqual(['a3', 'a4']);
      const rest = await fixture.client('/login', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{"email":"A@example.com"}',
      });
      expect(rest.status).toBe(429);
    } finally {
      await fixture.close();
    }
  });

  it('charge users, not the address that they share', async () => {
    const fixture = await startGraphqlFixture(
      {},
      { limits: () => ({ standard: { requests: 2, seconds: 3_600 } }) },
    );
    try {
      const asUser = () =>
        fixture.ask('{ getMine { result } }', {}, { authorization: 'Bearer good' });
      expect([(await asUser()).status, (await asUser()).status, (await asUser()).status]).toEqual([
        200, 200, 429,
      ]);
      expect((await fixture.ask('{ getAb { result } }')).status).toBe(200);
    } finally {
      await fixture.close();
    }
  });
});
