/** Who can, where rules about records say who may and who may not: what is listed is what checks allow. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

describe('who can, by rules about callers', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let database: pg.Client;
  let ada: TestUser;
  let bob: TestUser;
  let eve: TestUser;

  const fields = {
    title: 'String',
    author: { type: 'Relation', model: 'User' },
    blocked: [{ type: 'Relation', model: 'User' }],
    guests: ['String'],
    by: 'String',
    free: 'JSON',
    about: { author: 'String' },
    parts: [{ name: 'String', by: 'ObjectId' }],
  } as const;
  const rule = (text: string) => ({ rule: text });
  const everybodyBut = (subtract: unknown) => ({ exclusion: { base: ['*'], subtract } });
  const actions = {
    ofOthers: [rule('record.author != caller.id')],
    unlessBlocked: [rule('!(caller.id in record.blocked)')],
    exceptBlocked: everybodyBut([rule('caller.id in record.blocked')]),
    viewedByAuthor: { intersection: ['viewer', rule('record.author == caller.id')] },
    viewedByOthers: {
      exclusion: { base: ['viewer'], subtract: [rule('record.author == caller.id')] },
    },
    guest: [rule('caller.id in record.guests')],
    byText: [rule('record.by == caller.id')],
    byJson: [rule('record.free == caller.id')],
    byMember: [rule('record.about.author == caller.id')],
    byPart: [rule('record.parts.exists(p, p.by == caller.id)')],
    byNoPart: [rule('record.parts.all(p, p.by != caller.id)')],
  };

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    [ada, bob, eve] = [
      await platform.registerUser(),
      await platform.registerUser(),
      await platform.registerUser(),
    ];
    database = new pg.Client({ connectionString: platform.databaseUrl });
    await database.connect();
    await platform.createSchema({
      name: 'Note',
      fields,
      conduitOptions: { authorization: { enabled: true } },
    });
    await permissions.define({
      name: 'Note',
      version: 1,
      relations: { owner: ['User'], viewer: ['User'] },
      permissions: { read: ['owner'], edit: ['owner'], delete: ['owner'], ...actions },
    });
  });
  afterAll(async () => {
    await database?.end();
    await platform?.close();
  });

  const created = async (inputDocument: object): Promise<string> => {
    const { body } = expectStatus(
      await platform.admin.post('/database/schemas/Note/docs', { inputDocument }),
      200,
      'create',
    );
    return `Note:${body._id}`;
  };
  const who = async (permission: string, resource: string): Promise<Json> => {
    const query = { permission, resource };
    const answer = await platform.admin.get('/authorization/permissions/subjects', { query });
    return expectStatus(answer, 200, permission).body;
  };

  /** Everybody whom a check allows is listed, or is one of everybody; of those who are named, nobody else is. */
  async function expectAgreement(
    permission: string,
    resource: string,
    named: readonly TestUser[],
  ): Promise<Json> {
    const body = await who(permission, resource);
    for (const { userId } of [ada, bob, eve]) {
      const isNamed = named.some((one) => one.userId === userId);
      const listed =
        body.subjects.includes(`User:${userId}`) || (!isNamed && body.subjects.includes('User:*'));
      const checked = await permissions.can(`User:${userId} ${permission} ${resource}`);
      expect([permission, userId, listed]).toEqual([permission, userId, checked]);
    }
    return body;
  }

  it('lists everybody, where a rule names who may not', async () => {
    const note = await created({ author: ada.userId, blocked: [bob.userId] });
    expect(await expectAgreement('ofOthers', note, [ada])).toEqual({ subjects: ['User:*'] });
    for (const action of ['unlessBlocked', 'exceptBlocked'])
      expect(await expectAgreement(action, note, [bob])).toEqual({ subjects: ['User:*'] });
    const unsaid = await created({ title: 'of nobody' });
    expect(await expectAgreement('ofOthers', unsaid, [])).toEqual({ subjects: ['User:*'] });
    // Who is blocked is not known of a record that does not say it.
    expect(await expectAgreement('unlessBlocked', unsaid, [])).toEqual({ subjects: [] });
  });

  it('knows whom a rule names as one of everybody who stands in a relation', async () => {
    const note = await created({ author: ada.userId });
    await permissions.relate(`User:* viewer ${note}`);
    const all = [ada, bob, eve];
    expect((await expectAgreement('viewedByAuthor', note, all)).subjects).toEqual([
      `User:${ada.userId}`,
    ]);
    expect(await expectAgreement('viewedByOthers', note, [ada])).toEqual({ subjects: ['User:*'] });
  });

  it('finds whom texts, lists of texts and free JSON name, and takes nothing else for somebody', async () => {
    const [first, second] = [ada.userId, bob.userId];
    const note = await created({ guests: [first, 'nobody at all'], by: second, free: first });
    const all = [ada, bob, eve];
    expect((await expectAgreement('guest', note, all)).subjects).toEqual([`User:${first}`]);
    expect((await expectAgreement('byText', note, all)).subjects).toEqual([`User:${second}`]);
    expect((await expectAgreement('byJson', note, all)).subjects).toEqual([`User:${first}`]);
    // An id in capitals is the same object, and the text is not the same text.
    const capitals = await created({ by: second.toUpperCase(), free: { id: first } });
    expect((await expectAgreement('byText', capitals, all)).subjects).toEqual([]);
    expect((await expectAgreement('byJson', capitals, all)).subjects).toEqual([]);
  });

  it('finds whom objects and lists of objects name', async () => {
    const parts = [
      { name: 'a', by: ada.userId },
      { name: 'b', by: eve.userId },
    ];
    const note = await created({ about: { author: bob.userId }, parts });
    const all = [ada, bob, eve];
    expect(await expectAgreement('byMember', note, all)).toEqual({
      subjects: [`User:${bob.userId}`],
    });
    expect(await expectAgreement('byPart', note, all)).toEqual({
      subjects: [`User:${ada.userId}`, `User:${eve.userId}`].sort(),
    });
    expect(await expectAgreement('byNoPart', note, [ada, eve])).toEqual({ subjects: ['User:*'] });
  });

  it('asks tables of others by their own ids', async () => {
    await database.query(
      `create table public.tickets (id bigint primary key, author text, note text)`,
    );
    await database.query('insert into public.tickets values (7, $1, null)', [ada.userId]);
    const base = '/database/introspection';
    expectStatus(await platform.admin.post(base), 200, 'introspect');
    const pending = await platform.admin.get(`${base}/schemas`, { query: { limit: 100 } });
    const schemas = pending.body.schemas.filter(({ name }: Json) => name.includes('tickets'));
    const name = `imp_${schemas[0].name}`;
    expectStatus(
      await platform.admin.post(`${base}/schemas/finalize`, { schemas }),
      200,
      'finalize',
    );
    await permissions.define({
      name,
      relations: {},
      permissions: { read: [rule('record.author == caller.id')] },
    });
    const { subjects } = await expectAgreement('read', `${name}:7`, [ada, bob, eve]);
    expect(subjects).toEqual([`User:${ada.userId}`]);
    // What is no id of the table is no record.
    expect((await who('read', `${name}:${ada.userId}`)).subjects).toEqual([]);
  });
});
