/** What has no answer, pages, contextual tuples, expiry and explanations; what is true is the matter of property/. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { memoryOf } from '../../../../test/support/permission-data/memory.ts';
import { openTupleTable, type TupleTable } from '../../../../test/support/tuple-table.ts';
import { parseDefinition } from '../model/definition.ts';
import { parseObject, parseSubject } from '../model/grammar.ts';
import { buildModel } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import { createEngine } from './create-engine.ts';
import type { AskOptions, Page, Question, Reason } from './engine.ts';
import { cycleOf, stepsOf } from './rows/cycles.ts';
import { rowPredicate } from './rows/row-predicate.ts';

const model = buildModel(
  [
    { name: 'User', relations: {}, permissions: {} },
    {
      name: 'Team',
      relations: { member: ['User', 'Team#member'] },
      permissions: { read: ['member'] },
    },
    {
      name: 'Folder',
      relations: { parent: ['Folder'], owner: ['User', 'Team'] },
      permissions: { read: ['owner', 'owner->read', 'parent->read'] },
    },
    {
      name: 'Doc',
      relations: {
        folder: ['Folder'],
        viewer: ['User', 'Team#member'],
        guest: ['User with place'],
        banned: ['User'],
      },
      permissions: {
        read: ['viewer', 'folder->read', 'guest'],
        calm: { exclusion: { base: ['viewer'], subtract: ['banned'] } },
        visit: ['guest'],
        look: ['viewer'],
        apart: { exclusion: { base: ['viewer'], subtract: ['guest'] } },
        open: ['*'],
        none: [],
      },
      conditions: { place: { eq: [{ context: 'place' }, { attribute: 'place' }] } },
    },
  ].map(parseDefinition),
  1,
);
const engine = createEngine(model);

let table: TupleTable;
beforeAll(async () => {
  table = await openTupleTable();
});
afterAll(() => table.close());
beforeEach(() => table.replace([]));

function tuple(text: string, more: Partial<Tuple> = {}): Tuple {
  const [subject = '', relation = '', resource = ''] = text.split(' ');
  return {
    subject: parseSubject(subject, 'subject'),
    relation,
    resource: parseObject(resource, 'resource'),
    ...more,
  };
}

function question(text: string): Question {
  const { subject, relation, resource } = tuple(text);
  return { subject, action: relation, resource };
}

const check = async (text: string, options?: AskOptions): Promise<boolean | undefined> =>
  (await engine.check(table.database, [question(text)], options))[0];
const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'answered',
    (error: { code?: string; status?: number }) => [error.status, error.code],
  );
const user = parseSubject('User:a', 'subject');
const listed = async (action: string) =>
  (
    await engine.listResources(
      table.database,
      { subject: user, action, type: 'Doc' },
      { limit: 10 },
    )
  ).items;

/** Ids that the predicate lets through, in its form for few rows and for many. */
const rows = (action: string, id: string): Promise<readonly (readonly string[])[]> =>
  Promise.all(
    (['few', 'some', 'many'] as const).map(async (amount) => {
      const scope = { model, database: table.database };
      const predicate = await rowPredicate(
        scope,
        { subject: user, action, type: 'Doc' },
        memoryOf({
          ...{ amount, storedFew: false, known: true, largest: undefined },
          ...{ seen: 1, total: 1 },
        }),
      );
      const values: unknown[] = [[id]];
      const where = predicate.compile('t0.id', (value) => `$${values.push(value)}`);
      const text = `select t0.id from unnest($1::uuid[]) t0(id) where ${where}`;
      return (await table.database.query<{ id: string }>({ text, values })).rows.map(
        (row) => row.id,
      );
    }),
  );
const chain = (length: number): Tuple[] =>
  Array.from({ length }, (_, i) => tuple(`Folder:f${i + 1} parent Folder:f${i}`));

/** Each action is all those before it: more ways from the last to the first than anybody could count. */
const ladder = buildModel(
  [
    { name: 'User', relations: {}, permissions: {} },
    {
      name: 'Ladder',
      relations: { top: ['User'], out: ['User'] },
      permissions: Object.fromEntries(
        Array.from({ length: 60 }, (_, i) => {
          const before = Array.from({ length: i }, (__, j) => `a${j}`);
          return [
            `a${i}`,
            i === 0
              ? ['top']
              : i === 59
                ? { exclusion: { base: before, subtract: ['out'] } }
                : before,
          ];
        }),
      ),
    },
  ].map(parseDefinition),
  1,
);

describe('actions that refer to one another in countless ways', () => {
  it.each(['a58', 'a59'])('are answered at once: %s', async (action) => {
    const id = '00000000-0000-7000-8000-000000000001';
    await table.replace([tuple(`User:a top Ladder:${id}`)]);
    const { database } = table;
    const many = createEngine(ladder);
    const question = { subject: user, action, type: 'Ladder' };
    expect(await many.check(database, [{ ...question, resource: { type: 'Ladder', id } }])).toEqual(
      [true],
    );
    expect((await many.listResources(database, question, { limit: 10 })).items).toEqual([id]);
    expect(
      (
        await many.listSubjects(
          database,
          { action, type: 'User', resource: { type: 'Ladder', id } },
          { limit: 10 },
        )
      ).items,
    ).toEqual(['User:a']);
    const { compile } = await many.predicate(database, question);
    const values: unknown[] = [[id]];
    const text = `select t0.id from unnest($1::uuid[]) t0(id) where ${compile('t0.id', (value) => `$${values.push(value)}`, 'row')}`;
    expect(text.length).toBeLessThan(5_000);
    expect((await database.query({ text, values })).rows).toEqual([{ id }]);
    const asked = { ...question, resource: { type: 'Ladder', id } };
    expect((await many.explain(database, asked)).allowed).toBe(true);
    const denied = { ...asked, subject: parseSubject('User:z', 'subject') };
    expect((await many.explain(database, denied, { suggest: true })).allowed).toBe(false);
  });

  it('are looked at once where they lead to themselves', () => {
    const round = buildModel(
      [
        { name: 'User', relations: {}, permissions: {} },
        {
          name: 'Round',
          relations: { top: ['User', 'User with c'], next: ['Round'] },
          permissions: Object.fromEntries(
            Array.from({ length: 60 }, (_, i) => [
              `a${i}`,
              i === 0 ? ['top', 'next->a59'] : Array.from({ length: i }, (__, j) => `a${j}`),
            ]),
          ),
          conditions: { c: { eq: [{ attribute: 'a' }, 1] } },
        },
      ].map(parseDefinition),
      1,
    );
    const last = { type: 'Round', kind: 'action', name: 'a59' } as const;
    expect(stepsOf(round, last, cycleOf(round, last))).toHaveLength(1);
  });
});

describe('questions without an answer', () => {
  it.each([
    'Robot:a read Doc:1',
    'User:a read Robot:1',
    'User:a fly Doc:1',
    'User:a __proto__ Doc:1',
    'Team:t#boss read Doc:1',
  ])('%s is 400', async (text) =>
    expect(await failure(check(text))).toEqual([400, 'INVALID_ARGUMENTS']),
  );

  it('answers however far away it is that something hangs on', async () => {
    await table.replace([...chain(1_000), tuple('User:a owner Folder:f1000')]);
    for (const id of ['f0', 'f10', 'f974', 'f1000']) {
      expect([id, await check(`User:a read Folder:${id}`)]).toEqual([id, true]);
      expect([id, await check(`User:b read Folder:${id}`)]).toEqual([id, false]);
    }
    const list = { subject: user, action: 'read', type: 'Folder' };
    const { items } = await engine.listResources(table.database, list, { limit: 1_000 });
    expect(items).toHaveLength(1_000);
    expect((await engine.predicate(table.database, list)).shape).not.toBe('');
    const told = await engine.explain(table.database, {
      subject: user,
      action: 'read',
      resource: { type: 'Folder', id: 'f0' },
    });
    expect(told.allowed).toBe(true);
  });

  it('ends where objects stand in a ring of any length', async () => {
    await table.replace([
      ...chain(60),
      tuple('Folder:f0 parent Folder:f60'),
      tuple('User:a owner Folder:f30'),
    ]);
    expect(await check('User:a read Folder:f31')).toBe(true);
    expect(await check('User:b read Folder:f31')).toBe(false);
    const list = { subject: user, action: 'read', type: 'Folder' };
    const { items } = await engine.listResources(table.database, list, { limit: 100 });
    expect(items).toHaveLength(61);
  });

  it('answers about objects that lead to more than is ever loaded', async () => {
    await table.replace([
      ...Array.from({ length: 10_001 }, (_, i) => tuple(`Folder:g${i} folder Doc:1`)),
      tuple('User:a owner Folder:g9999'),
    ]);
    expect(await check('User:a read Doc:1')).toBe(true);
    expect(await check('User:b read Doc:1')).toBe(false);
    expect(await check('User:a calm Doc:1')).toBe(false);
  });

  it('names the values that are missing, and decides without them where it can', async () => {
    await table.replace([
      tuple('User:a guest Doc:1', { condition: 'place', attributes: { place: 'home' } }),
    ]);
    await expect(check('User:a visit Doc:1')).rejects.toMatchObject({
      code: 'CONTEXT_MISSING',
      errors: [{ path: 'context.place' }],
    });
    expect(await check('User:a visit Doc:1', { context: { place: 'home' } })).toBe(true);
    expect(await check('User:a visit Doc:1', { context: { place: 'work' } })).toBe(false);
    expect(await check('User:b visit Doc:1')).toBe(false);
    await table.replace([
      tuple('User:a guest Doc:1', { condition: 'place', attributes: { place: 'home' } }),
      tuple('User:a viewer Doc:1'),
    ]);
    expect(await check('User:a read Doc:1')).toBe(true);
  });

  it('takes away what a condition takes that nobody can decide, and gives nothing by it', async () => {
    // There is nothing to compare the place of the request with.
    const guest = tuple('User:a guest Doc:1', { condition: 'place' });
    await table.replace([guest, tuple('User:a viewer Doc:1')]);
    const options = { context: { place: 'home' } };
    expect(await check('User:a look Doc:1', options)).toBe(true);
    expect(await check('User:a apart Doc:1', options)).toBe(false);
    expect(await check('User:a visit Doc:1', options)).toBe(false);
    for (const action of ['apart', 'visit'])
      expect(
        await engine.listResources(
          table.database,
          { subject: { type: 'User', id: 'a', relation: '' }, action, type: 'Doc' },
          { limit: 10, ...options },
        ),
      ).toEqual({ items: [] });
    const told = await engine.explain(table.database, question('User:a apart Doc:1'), options);
    expect(told).toMatchObject({ outcome: 'denied', missing: [] });
    expect(JSON.stringify(told)).toContain('cannot be decided');
  });

  it('lets nobody through while a ban gets a condition, or another one', async () => {
    const barring = buildModel(
      [
        { name: 'User', relations: {}, permissions: {} },
        {
          name: 'Note',
          relations: { viewer: ['User'], banned: ['User', 'User with since'] },
          permissions: { read: { exclusion: { base: ['viewer'], subtract: ['banned'] } } },
          conditions: { since: { lt: [{ attribute: 'from' }, { now: true }] } },
        },
      ].map(parseDefinition),
      1,
    );
    const id = '01900000-0000-7000-8000-00000000000a';
    const seen = tuple(`User:a viewer Note:${id}`);
    const bannedFrom = (from: string) =>
      tuple(`User:a banned Note:${id}`, { condition: 'since', attributes: { from } });
    const [always, past, later] = [
      tuple(`User:a banned Note:${id}`),
      bannedFrom('2001-01-01T00:00:00Z'),
      bannedFrom('2999-01-01T00:00:00Z'),
    ];
    /** Whether the row is shown where the tuples change between the plan and the statement. */
    const isShown = async (before: Tuple, after?: Tuple) => {
      await table.replace([seen, before]);
      const subject = parseSubject('User:a', 'subject');
      const rows = { subject, action: 'read', type: 'Note' };
      const { compile } = await createEngine(barring).predicate(table.database, rows);
      if (after) await table.replace([seen, after]);
      const values: unknown[] = [[id]];
      const test = compile('t0."_id"', (value) => `$${values.push(value)}`);
      const text = `select t0."_id" from unnest($1::uuid[]) t0("_id") where ${test}`;
      return (await table.database.query({ text, values })).rows.length > 0;
    };
    expect(await isShown(later)).toBe(true);
    expect(await isShown(past)).toBe(false);
    expect(await isShown(always, past)).toBe(false);
    expect(await isShown(past, always)).toBe(false);
    expect(await isShown(later, past)).toBe(false);
  });

  it('takes at most 50 questions and 100 contextual tuples, which must fit', async () => {
    const many = Array.from({ length: 51 }, () => question('User:a read Doc:1'));
    expect(await failure(engine.check(table.database, many))).toEqual([400, 'INVALID_ARGUMENTS']);
    const contextual = Array.from({ length: 101 }, (_, i) => tuple(`User:u${i} viewer Doc:1`));
    expect(await failure(check('User:a read Doc:1', { contextual }))).toEqual([
      400,
      'INVALID_ARGUMENTS',
    ]);
    expect(
      await failure(check('User:a read Doc:1', { contextual: [tuple('Folder:f viewer Doc:1')] })),
    ).toEqual([400, 'INVALID_ARGUMENTS']);
  });
});

describe('answers', () => {
  it('an object may do everything declared to itself, and only when asked directly', async () => {
    expect(await check('Doc:1 none Doc:1')).toBe(true);
    expect(await failure(check('Doc:1 fly Doc:1'))).toEqual([400, 'INVALID_ARGUMENTS']);
    await table.replace([tuple('Folder:f folder Doc:1')]);
    expect(await check('Folder:f read Doc:1')).toBe(false);
  });

  it('come in the order of the questions', async () => {
    await table.replace([tuple('User:a viewer Doc:1'), tuple('User:b viewer Doc:2')]);
    const questions = [
      'User:a read Doc:1',
      'User:a read Doc:2',
      'User:b read Doc:2',
      'Doc:9 read Doc:9',
      'User:z open Doc:3',
    ].map(question);
    expect(await engine.check(table.database, questions)).toEqual([true, false, true, true, true]);
    expect(await engine.check(table.database, [])).toEqual([]);
  });

  it('leave out what is over', async () => {
    await table.replace([
      tuple('User:a viewer Doc:1', { expired: true }),
      tuple('User:a viewer Doc:2', { expired: false }),
    ]);
    expect(await check('User:a read Doc:1')).toBe(false);
    expect(await check('User:a read Doc:2')).toBe(true);
    expect(await engine.directRelations(table.database, user, { type: 'Doc', id: '1' })).toEqual(
      [],
    );
    expect(await engine.directRelations(table.database, user, { type: 'Doc', id: '2' })).toEqual([
      'viewer',
    ]);
  });

  it('leave out tuples that the definitions do not allow (any more), on every way', async () => {
    const id = '00000000-0000-7000-8000-000000000001';
    await table.replace([
      tuple(`User:a viewer Doc:${id}`, { condition: 'place', attributes: { place: 'home' } }),
      tuple(`Team:t viewer Doc:${id}`),
      tuple('User:a member Team:t'),
      tuple(`User:a editor Doc:${id}`),
    ]);
    for (const action of ['look', 'read']) {
      expect(await check(`User:a ${action} Doc:${id}`, { context: { place: 'home' } })).toBe(false);
      expect(await listed(action)).toEqual([]);
      expect(await rows(action, id)).toEqual([[], [], []]);
    }
  });

  it('show no row whose exclusion hangs on a value that is not known', async () => {
    const id = '00000000-0000-7000-8000-000000000001';
    await table.replace([tuple(`User:a viewer Doc:${id}`)]);
    expect(await rows('apart', id)).toEqual([[id], [id], [id]]);
    await table.replace([
      tuple(`User:a viewer Doc:${id}`),
      tuple(`User:a guest Doc:${id}`, { condition: 'place', attributes: { place: 'home' } }),
    ]);
    expect(await failure(check(`User:a apart Doc:${id}`))).toEqual([400, 'CONTEXT_MISSING']);
    expect(await listed('apart')).toEqual([]);
    expect(await rows('apart', id)).toEqual([[], [], []]);
  });

  it('count contextual tuples in checks and lists, also in the middle of a chain, and keep none', async () => {
    await table.replace([
      tuple('User:a member Team:t'),
      tuple('Folder:g parent Folder:f'),
      tuple('Folder:f folder Doc:1'),
    ]);
    const contextual = [tuple('Team:t owner Folder:g')];
    expect(await check('User:a read Doc:1', { contextual })).toBe(true);
    const list = { subject: user, action: 'read', type: 'Doc' };
    expect(
      (await engine.listResources(table.database, list, { limit: 10, contextual })).items,
    ).toEqual(['1']);
    const who = { resource: { type: 'Doc', id: '1' }, action: 'read', type: 'User' };
    expect(
      (await engine.listSubjects(table.database, who, { limit: 10, contextual })).items,
    ).toEqual(['User:a']);
    expect(await check('User:a read Doc:1')).toBe(false);
  });
});

describe('pages', () => {
  const list = { subject: user, action: 'read', type: 'Doc' };
  async function walk(read: (cursor?: string) => Promise<Page<string>>): Promise<string[]> {
    const first = await read();
    const items = [...first.items];
    for (let { cursor } = first; cursor !== undefined; ) {
      const page = await read(cursor);
      items.push(...page.items);
      cursor = page.cursor;
    }
    return items;
  }

  it('hold every resource once, and none that was revoked before its page', async () => {
    const ids = Array.from({ length: 500 }, (_, i) => `d${String(i).padStart(3, '0')}`);
    const stored = await table.replace(ids.map((id) => tuple(`User:a viewer Doc:${id}`)));
    const revoked = [450, 451, 499];
    const walked: string[] = [];
    for (
      let cursor: string | undefined, first = true;
      first || cursor !== undefined;
      first = false
    ) {
      const page: Page<string> = await engine.listResources(table.database, list, {
        limit: 50,
        ...(cursor !== undefined && { cursor }),
      });
      walked.push(...page.items);
      if (walked.length === 50) await table.remove(revoked.map((n) => stored[n] ?? ''));
      cursor = page.cursor;
    }
    expect(walked).toEqual(ids.filter((_, i) => !revoked.includes(i)));
  });

  it('hold an object that asks about itself, and no object where everybody of its type does', async () => {
    await table.replace([]);
    const asked = async (subject: string) =>
      (
        await engine.listResources(
          table.database,
          { ...list, subject: parseSubject(subject, 'subject') },
          { limit: 10 },
        )
      ).items;
    expect(await asked('Doc:1')).toEqual(['1']);
    expect(await asked('Doc:*')).toEqual([]);
  });

  it('hold each once where it is found in several ways, and evaluate what must be', async () => {
    const ids = Array.from({ length: 150 }, (_, i) => `d${String(i).padStart(3, '0')}`);
    await table.replace([
      tuple('User:a member Team:t'),
      ...ids.flatMap((id) => [
        tuple(`User:a viewer Doc:${id}`),
        tuple(`Team:t#member viewer Doc:${id}`),
      ]),
      ...ids.filter((_, i) => i % 3 === 0).map((id) => tuple(`User:a banned Doc:${id}`)),
    ]);
    const all = await walk((cursor) =>
      engine.listResources(table.database, list, {
        limit: 7,
        ...(cursor !== undefined && { cursor }),
      }),
    );
    expect(all).toEqual(ids);
    const calm = { ...list, action: 'calm' };
    const some = await walk((cursor) =>
      engine.listResources(table.database, calm, {
        limit: 7,
        ...(cursor !== undefined && { cursor }),
      }),
    );
    expect(some).toEqual(ids.filter((_, i) => i % 3 !== 0));
  });

  it('list who may act, with everybody as one', async () => {
    await table.replace([
      tuple('User:* viewer Doc:1'),
      tuple('User:b banned Doc:1'),
      tuple('User:c member Team:t'),
      tuple('Team:t#member viewer Doc:1'),
    ]);
    const who = { resource: { type: 'Doc', id: '1' }, action: 'calm', type: 'User' };
    const listed = await walk((cursor) =>
      engine.listSubjects(table.database, who, {
        limit: 1,
        ...(cursor !== undefined && { cursor }),
      }),
    );
    expect(listed).toEqual(['User:*', 'User:c']);
  });

  it.each(['x', '', '!!', Buffer.from('aaaaaaaaaaaad1').toString('base64url')])(
    'refuse the cursor %j',
    async (cursor) => {
      expect(
        await failure(engine.listResources(table.database, list, { limit: 5, cursor })),
      ).toEqual([400, 'CURSOR_INVALID']);
    },
  );

  it('refuse a cursor of another question and a senseless limit', async () => {
    await table.replace(['1', '2', '3'].map((id) => tuple(`User:a viewer Doc:${id}`)));
    const { cursor = '' } = await engine.listResources(table.database, list, { limit: 1 });
    expect(
      await failure(
        engine.listResources(table.database, { ...list, action: 'calm' }, { limit: 1, cursor }),
      ),
    ).toEqual([400, 'CURSOR_INVALID']);
    for (const limit of [0, -1, 1.5, 1001, Number.NaN]) {
      expect(await failure(engine.listResources(table.database, list, { limit }))).toEqual([
        400,
        'INVALID_ARGUMENTS',
      ]);
    }
  });
});

describe('explanations', () => {
  const lines = (reason: Reason, indent = ''): string[] => [
    `${indent}${reason.about}: ${reason.allowed ? 'yes' : 'no'}, ${reason.because}${reason.tuple ? ` [${reason.tuple}]` : ''}`,
    ...reason.parts.flatMap((part) => lines(part, `${indent}  `)),
  ];
  const told = async (text: string, options?: AskOptions) =>
    lines(await engine.explain(table.database, question(text), options)).join('\n');

  it('tell the tuples that decide', async () => {
    await table.replace([
      tuple('User:a member Team:t'),
      tuple('Team:t owner Folder:f'),
      tuple('Folder:f folder Doc:1'),
    ]);
    const text = await told('User:a read Doc:1');
    expect(text).toMatch(/^Doc:1 read: yes/);
    for (const part of [
      '[Folder:f#folder@Doc:1]',
      '[Team:t#owner@Folder:f]',
      '[User:a#member@Team:t]',
    ])
      expect(text).toContain(part);
    expect(text).not.toContain(': no');
  });

  it('tell what is missing for a denial', async () => {
    await table.replace([
      tuple('Folder:f folder Doc:1'),
      tuple('User:a viewer Doc:1', { expired: true }),
    ]);
    const text = await told('User:a read Doc:1');
    expect(text).toMatch(/^Doc:1 read: no/);
    expect(text).toContain('but its time is over');
    expect(text).toContain('User:a does not stand in owner of Folder:f');
    expect(text).not.toContain(': yes');
  });

  it('end in cycles, and say what excludes', async () => {
    await table.replace([
      tuple('Folder:a parent Folder:b'),
      tuple('Folder:b parent Folder:a'),
      tuple('User:u owner Folder:a'),
    ]);
    expect(await told('User:u read Folder:b')).toMatch(/^Folder:b read: yes/);
    expect(await told('User:x read Folder:b')).toContain('is what is being asked above');
    await table.replace([tuple('User:a viewer Doc:1'), tuple('User:a banned Doc:1')]);
    expect(await told('User:a calm Doc:1')).toContain('[User:a#banned@Doc:1]');
  });

  it('say which values are missing instead of failing', async () => {
    await table.replace([
      tuple('User:a guest Doc:1', { condition: 'place', attributes: { place: 'home' } }),
    ]);
    expect(await told('User:a visit Doc:1')).toContain('needs values that were not given');
    expect(await told('User:a visit Doc:1', { context: { place: 'home' } })).toContain(
      'the condition "place" holds',
    );
  });
});
