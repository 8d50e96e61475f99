// Guards against patterns that stop the process (CWE-1333, CWE-400): security review 2026-11-22, F1.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';

/** Each of the first three held the event loop for seconds to centuries. */
const bombs = [
  '(?:(?:(?:){9999}){9999}){9999}',
  '(?:(?:){9999}){9999}',
  '(?:(?:(?:){9999}){3}){9999}',
  '(?:^|$){9999}',
  '(?:(?:(?:a?){99}){99}){99}',
  `${'('.repeat(250)}${')'.repeat(250)}`,
  'x'.repeat(501),
];

describe('patterns that would stop the process', () => {
  let platform: TestPlatform;
  let readToken: string;
  beforeAll(async () => {
    platform = await createTestPlatform();
    await platform.createSchema({
      name: 'Open',
      fields: { title: { type: 'String', required: true } },
      conduitOptions: {
        cms: { query: { enabled: true, fields: ['title'], operators: ['$regex'] } },
      },
    });
    readToken = (await platform.admin.post('/api-tokens', { name: 'reader', scopes: ['read'] }))
      .body.token;
    for (const title of ['Ärger', 'word', 'two words', 'Ωmega'])
      expect(await platform.client.post('/database/Open', { title })).toMatchObject({
        status: 200,
      });
  });
  afterAll(() => platform.close());

  const expectRefused = (
    answer: { readonly status: number; readonly body: unknown },
    path: string,
  ) => {
    expect(answer).toMatchObject({ status: 400, body: { errors: [{ path, rule: 'pattern' }] } });
  };

  it.each(bombs)('are refused at every door: %s', async (bomb) => {
    const query = { query: { title: { $regex: bomb } } };
    expectRefused(await platform.client.post('/database/Open/query', query), 'query.title.$regex');
    const reader = { headers: { credential: readToken } };
    expectRefused(
      await platform.adminAnonymous.post('/database/schemas/Open/query', query, reader),
      'query.title.$regex',
    );
    const fields = { code: { type: 'String', validate: { pattern: bomb } } };
    expectRefused(
      await platform.admin.post('/database/schemas', { name: 'Bomb', fields }),
      'fields.code.validate.pattern',
    );
    expect((await platform.client.get('/live')).status).toBe(200);
  });

  it('understand letters of every language and the edges of words, the same in both engines', async () => {
    const titles = async (pattern: string) => {
      const answer = await platform.client.post('/database/Open/query', {
        query: { title: { $regex: pattern } },
      });
      expect(answer).toMatchObject({ status: 200 });
      return answer.body.documents.map(({ title }: { title: string }) => title).toSorted();
    };
    expect(await titles('^\\p{L}+$')).toEqual(['word', 'Ärger', 'Ωmega']);
    expect(await titles('\\bwords?\\b')).toEqual(['two words', 'word']);
    expect(await titles('\\p{Greek}')).toEqual(['Ωmega']);

    await platform.createSchema({
      name: 'Named',
      fields: { name: { type: 'String', validate: { pattern: '^\\p{Lu}\\p{L}*$' } } },
    });
    expect(await platform.client.post('/database/Named', { name: 'Ärger' })).toMatchObject({
      status: 200,
    });
    expect(await platform.client.post('/database/Named', { name: 'ärger' })).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'name' }] },
    });
  });
});
