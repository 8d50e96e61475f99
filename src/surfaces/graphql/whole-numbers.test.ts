import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

describe('numbers in documents', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());

  const ask = async (query: string): Promise<Json> =>
    (await platform.client.post('/graphql', { query })).body;

  it('reads a whole number beyond those of JavaScript as a JSON body would, and loses no digit where all count', async () => {
    const digits = '9007199254740993';
    const fields = {
      plain: 'Number',
      free: 'JSON',
      list: ['Number'],
      inside: { n: 'Number' },
      long: { type: 'Number', sqlType: 'BIGINT' },
      exact: { type: 'Number', sqlType: 'DECIMAL' },
      small: { type: 'Number', sqlType: 'INT' },
    } as const;
    await platform.createSchema({ name: 'Count', fields });
    const { body } = await platform.client.post('/database/Count', {
      plain: Number(digits),
      list: [1, Number(digits)],
    });
    expect(body).toMatchObject({ plain: 9007199254740992, list: [1, 9007199254740992] });
    const values = `plain: ${digits}, list: [1, ${digits}], inside: {n: -${digits}}, long: ${digits}, exact: ${digits}`;
    const made = await ask(
      `mutation { postDatabaseCount(params: {${values}}) { plain list inside { n } long exact } }`,
    );
    expect(made.data?.postDatabaseCount).toEqual({
      plain: 9007199254740992,
      list: [1, 9007199254740992],
      inside: { n: -9007199254740992 },
      long: digits,
      exact: digits,
    });
    const free = await ask(
      `mutation($n: Number = ${digits}) { postDatabaseCount(params: {free: {a: [$n]}}) { free } }`,
    );
    expect(free.data?.postDatabaseCount).toEqual({ free: { a: [9007199254740992] } });
    // Text is no number there, as in a JSON body.
    const text = await ask('mutation { postDatabaseCount(params: {plain: "5"}) { plain } }');
    expect(text.errors[0].extensions.code).toBe('GRAPHQL_VALIDATION_FAILED');
    expect(
      (await ask('{ getDatabaseCount(limit: 9007199254740993) { count } }')).errors,
    ).toHaveLength(1);
  });

  it('takes variables of the types that clients declare, and tells tools the same types', async () => {
    const { data } = await ask(
      '{ count: __type(name: "Count") { fields { name type { name ofType { name } } } } page: __type(name: "Query") { fields { name args { name type { name } } } } }',
    );
    const types = Object.fromEntries(
      data.count.fields.map(({ name, type }: Json) => [name, type.name]),
    );
    expect(types).toMatchObject({ plain: 'Float', long: 'BigInt', exact: 'Decimal', small: 'Int' });
    const list = data.page.fields.find(({ name }: Json) => name === 'getDatabaseCount');
    const args = Object.fromEntries(list.args.map(({ name, type }: Json) => [name, type.name]));
    expect(args).toMatchObject({ skip: 'Int', limit: 'Int' });
    for (const type of ['Int', 'Int!', 'Float', 'Number', 'Number!']) {
      const { body } = await platform.client.post('/graphql', {
        query: `query($n: ${type}, $s: ${type}) { getDatabaseCount(limit: $n, skip: $s) { documents { _id } } }`,
        variables: { n: 1, s: 0 },
      });
      expect(body.errors).toBeUndefined();
      expect(body.data.getDatabaseCount.documents).toHaveLength(1);
    }
    const create = async (type: string, value: unknown): Promise<Json> =>
      (
        await platform.client.post('/graphql', {
          query: `mutation($n: ${type}) { postDatabaseCount(params: {long: $n}) { long } }`,
          variables: { n: value },
        })
      ).body;
    expect((await create('BigInt', '9007199254740993')).data.postDatabaseCount.long).toBe(
      '9007199254740993',
    );
    expect((await create('BigInt', 12)).data.postDatabaseCount.long).toBe(12);
    expect((await create('Int!', 13)).data.postDatabaseCount.long).toBe(13);
    expect((await create('Int!', 2 ** 31)).errors[0].extensions.code).toBe('BAD_USER_INPUT');
  });
});
