/** What one short statement decides, and what it leaves. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openTupleTable, type TupleTable } from '../../../../test/support/tuple-table.ts';
import type { Queryable, Statement } from '../../../kernel/database/database.ts';
import { parseDefinition } from '../model/definition.ts';
import { parseObject, parseSubject } from '../model/grammar.ts';
import { buildModel } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import { createEngine } from './create-engine.ts';
import type { AskOptions, Engine, ProbeReach } from './engine.ts';
import { createGrantCache } from './grant-cache/grant-cache.ts';

const definitions = [
  { name: 'User', relations: {}, permissions: {} },
  { name: 'Team', relations: { member: ['User'] }, permissions: { read: ['member'] } },
  {
    name: 'Folder',
    relations: { owner: ['User'], parent: ['Folder'] },
    permissions: { read: ['owner', 'parent->read'] },
  },
  {
    name: 'Doc',
    relations: {
      owner: ['User'],
      viewer: ['User', 'Team#member'],
      guest: ['User with place'],
      reader: ['User:*'],
      banned: ['User'],
      team: ['Team'],
    },
    permissions: {
      edit: ['owner'],
      change: ['edit'],
      read: ['edit', 'viewer', 'reader', 'team->read'],
      visit: ['owner', 'guest'],
      calm: { exclusion: { base: ['owner'], subtract: ['banned'] } },
      pair: { intersection: ['owner', 'viewer'] },
      mixed: { union: ['owner', { exclusion: { base: ['viewer'], subtract: ['banned'] } }] },
      lead: ['team->read'],
      open: ['*'],
      none: [],
    },
    conditions: { place: { eq: [{ context: 'place' }, { attribute: 'place' }] } },
  },
].map(parseDefinition);
const engine = createEngine(buildModel(definitions, 1));

/** An engine that keeps what subjects reach, and believes in definitions newer than those of any test. */
const keepingEngine = (): Engine =>
  createEngine(buildModel(definitions, 1_000), createGrantCache(table.database));

let table: TupleTable;
let sent: Statement[] = [];
let counted: Queryable;
beforeAll(async () => {
  table = await openTupleTable();
  counted = {
    query: (statement) => {
      sent.push(statement);
      return table.database.query(statement);
    },
  };
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

/** The answer, `left` when the statement does not decide it, and `unasked` when none is made. */
async function probe(
  text: string,
  { reach = 'object', ...options }: AskOptions & { readonly reach?: ProbeReach } = {},
): Promise<boolean | 'left' | 'unasked'> {
  sent = [];
  const { subject, relation, resource } = tuple(text);
  const question = { subject, action: relation, resource };
  const found = await engine.probe(counted, question, options, reach);
  expect(sent.map((statement) => statement.class)).toEqual(found ? ['short'] : []);
  return found ? (found.allowed ?? 'left') : 'unasked';
}

describe('a look at the object', () => {
  it('allows by a relation, a direct grant or everybody of a type', async () => {
    await table.replace([
      tuple('User:a owner Doc:1'),
      tuple('User:b can:edit Doc:1'),
      tuple('User:* viewer Doc:2'),
      tuple('Team:t#member viewer Doc:3'),
    ]);
    for (const action of ['edit', 'change', 'read', 'visit', 'mixed', 'owner']) {
      expect([action, await probe(`User:a ${action} Doc:1`)]).toEqual([action, true]);
    }
    for (const action of ['edit', 'change', 'read'])
      expect([action, await probe(`User:b ${action} Doc:1`)]).toEqual([action, true]);
    expect(await probe('User:x read Doc:2')).toBe(true);
    expect(await probe('User:* read Doc:2')).toBe(true);
    expect(await probe('Team:t#member read Doc:3')).toBe(true);
    expect(await probe('User:x open Doc:9')).toBe(true);
  });

  it('takes all that is written where that is little, and says whether it was all', async () => {
    const owners = Array.from({ length: 16 }, (_, n) => tuple(`User:o${n} owner Doc:1`));
    await table.replace([...owners, tuple('Team:t team Doc:2'), tuple('User:a owner Doc:2')]);
    const near = async (text: string) => {
      const { subject, relation, resource } = tuple(text);
      const question = { subject, action: relation, resource };
      const found = await engine.probe(table.database, question, {}, 'near');
      return [found?.allowed, found?.whole];
    };
    expect(await near('User:o3 edit Doc:1')).toEqual([true, true]);
    expect(await near('User:x edit Doc:1')).toEqual([false, true]);
    expect(await near('User:a calm Doc:2')).toEqual([true, true]);
    // The team leads on for one action, and not for another one.
    expect(await near('User:x read Doc:2')).toEqual([undefined, true]);
    expect(await near('User:x edit Doc:2')).toEqual([false, true]);
    await table.add([tuple('User:o16 owner Doc:1')]);
    expect((await near('User:x edit Doc:1'))[1]).toBe(false);
    expect((await near('User:x edit Doc:1'))[0]).toBe(undefined);
  });

  it('is one statement for those that are asked in one turn, and right for each', async () => {
    const odd = 'a"b\\,{} null';
    await table.replace([
      tuple('User:a owner Doc:1'),
      ...Array.from({ length: 18 }, (_, n) => tuple(`User:o${n} owner Doc:many`)),
      tuple('User:a banned Doc:3'),
      tuple('User:a owner Doc:3'),
      tuple('User:a owner Doc:x', { resource: { type: 'Doc', id: odd } }),
    ]);
    const ids = ['1', 'none', 'many', '3', odd, '1'];
    sent = [];
    const ask = (id: string, action: string) =>
      engine.probe(
        counted,
        { ...tuple('User:a owner Doc:1'), action, resource: { type: 'Doc', id } },
        {},
        'near',
      );
    const found = await Promise.all(ids.map((id) => ask(id, 'calm')));
    expect(found.map((one) => [one?.allowed, one?.whole])).toEqual([
      [true, true],
      [false, true],
      [undefined, false],
      [false, true],
      [true, true],
      [true, true],
    ]);
    expect(sent).toHaveLength(1);
    // Another action asks for other tuples; more than eight are two statements.
    sent = [];
    await Promise.all([...Array.from({ length: 9 }, () => ask('1', 'calm')), ask('1', 'pair')]);
    expect(sent).toHaveLength(3);
    expect(await Promise.all([ask('1', 'calm'), ask('1', 'pair')])).toMatchObject([
      { allowed: true },
      { allowed: false },
    ]);
  });

  it('is a statement of its own where statements are traced', async () => {
    sent = [];
    const traced: Queryable = { ...counted, isTraced: true };
    const { subject, resource } = tuple('User:a owner Doc:1');
    const question = { subject, action: 'edit', resource };
    await Promise.all([1, 2].map(() => engine.probe(traced, question, {}, 'near')));
    expect(sent).toHaveLength(2);
  });

  it('denies where nothing that is written about the object leads to another', async () => {
    await table.replace([
      tuple('User:a owner Doc:1'),
      tuple('Team:t team Doc:2'),
      tuple('Team:t#member viewer Doc:3'),
    ]);
    for (const action of ['edit', 'change', 'none', 'owner', 'read', 'visit', 'mixed', 'lead'])
      expect([action, await probe(`User:b ${action} Doc:1`)]).toEqual([action, false]);
    for (const id of ['2', '3']) expect(await probe(`User:b read Doc:${id}`)).toBe('left');
    expect(await probe('User:b edit Doc:2')).toBe(false);
  });

  it('decides exclusions and intersections that rest on the object alone', async () => {
    await table.replace([
      tuple('User:a owner Doc:1'),
      tuple('User:a banned Doc:1'),
      tuple('User:b owner Doc:1'),
      tuple('User:b viewer Doc:1'),
    ]);
    expect([await probe('User:a calm Doc:1'), await probe('User:b calm Doc:1')]).toEqual([
      false,
      true,
    ]);
    expect([await probe('User:a pair Doc:1'), await probe('User:b pair Doc:1')]).toEqual([
      false,
      true,
    ]);
  });

  it('is not misled by conditions, expired tuples or tuples that do not fit', async () => {
    await table.replace([
      tuple('User:a guest Doc:1', { condition: 'place', attributes: { place: 'home' } }),
      tuple('User:b owner Doc:1', { expired: true }),
      tuple('User:c owner Doc:1', { expired: false }),
      tuple('User:d owner Doc:1', { condition: 'place' }),
      tuple('User:e reader Doc:1'),
      tuple('Team:t owner Doc:1'),
    ]);
    expect(await probe('User:a visit Doc:1', { context: { place: 'home' } })).toBe(true);
    expect(await probe('User:a visit Doc:1', { context: { place: 'work' } })).toBe(false);
    expect(await probe('User:a visit Doc:1')).toBe('left');
    expect(await probe('User:b edit Doc:1')).toBe(false);
    expect(await probe('User:c edit Doc:1')).toBe(true);
    expect(await probe('User:d edit Doc:1')).toBe(false);
    expect(await probe('User:e read Doc:1')).toBe(false);
    expect(await probe('Team:t edit Doc:1')).toBe(false);
  });

  it('is not made for given tuples, objects themselves and unknown words', async () => {
    await table.replace([tuple('User:a owner Doc:1')]);
    expect(
      await probe('User:a edit Doc:1', {
        contextual: [tuple('User:a owner Doc:1', { expired: true })],
      }),
    ).toBe('unasked');
    for (const text of [
      'Doc:1 edit Doc:1',
      'Robot:a edit Doc:1',
      'User:a fly Doc:1',
      'Team:t#boss edit Doc:1',
      'User:a edit Robot:1',
    ]) {
      expect([text, await probe(text)]).toEqual([text, 'unasked']);
    }
  });

  it('says of which definitions it is true', async () => {
    const { subject, relation, resource } = tuple('User:a edit Doc:1');
    const question = { subject, action: relation, resource };
    expect(await engine.probe(table.database, question)).toEqual({
      revision: 0,
      allowed: false,
      whole: true,
    });
    await table.database.query({
      text: `insert into penstock.resource_definition_versions (name, changed_by) values ('Doc', 'test')`,
    });
    expect((await engine.probe(table.database, question))?.revision).toBe(1);
  });

  it('leaves objects that lead to very many others, unless it has found the subject', async () => {
    await table.replace([
      ...Array.from({ length: 300 }, (_, i) => tuple(`Team:t${i} team Doc:1`)),
      tuple('User:a viewer Doc:1'),
      tuple('User:a banned Doc:1'),
    ]);
    expect(await probe('User:a read Doc:1')).toBe(true);
    expect(await probe('User:b read Doc:1')).toBe('left');
    expect(await probe('User:a mixed Doc:1')).toBe(false);
  });
});

describe('a look at what the object leads to', () => {
  it('decides arrows and sets of many levels', async () => {
    await table.replace([
      tuple('User:a member Team:t'),
      tuple('Team:t team Doc:1'),
      tuple('Team:t#member viewer Doc:2'),
      ...Array.from({ length: 99 }, (_, i) => tuple(`Folder:f${i + 1} parent Folder:f${i}`)),
      tuple('User:a owner Folder:f99'),
    ]);
    for (const text of ['read Doc:1', 'read Doc:2', 'lead Doc:1', 'read Folder:f0']) {
      expect([text, await probe(`User:a ${text}`, { reach: 'graph' })]).toEqual([text, true]);
      expect([text, await probe(`User:b ${text}`, { reach: 'graph' })]).toEqual([text, false]);
    }
    expect(await probe('Team:t lead Doc:1', { reach: 'graph' })).toBe(false);
    expect(await probe('User:a edit Doc:1', { reach: 'graph' })).toBe('unasked');
  });

  it('leaves what is larger, unless it has found a sure way', async () => {
    const teams = Array.from({ length: 600 }, (_, i) => tuple(`Team:t${i} team Doc:1`));
    await table.replace([...teams, tuple('User:a viewer Doc:1'), tuple('User:c member Team:t599')]);
    expect(await probe('User:a read Doc:1', { reach: 'graph' })).toBe(true);
    expect(await probe('User:b read Doc:1', { reach: 'graph' })).toBe('left');
    expect(await probe('User:c read Doc:1', { reach: 'graph' })).not.toBe(false);
  });
});

describe('a look at the object of somebody whose way up is known', () => {
  const ask = async (keeping: Engine, text: string): Promise<boolean | 'left' | 'unasked'> => {
    sent = [];
    const { subject, relation, resource } = tuple(text);
    const found = await keeping.probe(counted, { subject, action: relation, resource }, {}, 'held');
    return found ? (found.allowed ?? 'left') : 'unasked';
  };
  const manyTimes = async (keeping: Engine, text: string): Promise<void> => {
    // A search that is held up by another one is made again after some more questions.
    for (let i = 0; i < 60; i += 1) await ask(keeping, text);
  };

  it('decides by one statement, however deep the object stands, until something changes on the way', async () => {
    const keeping = keepingEngine();
    await table.replace([
      ...Array.from({ length: 99 }, (_, i) => tuple(`Folder:f${i + 1} parent Folder:f${i}`)),
      tuple('User:a owner Folder:f99'),
    ]);
    expect(await ask(keeping, 'User:a read Folder:f0')).toBe('unasked');
    await manyTimes(keeping, 'User:a read Folder:f0');
    for (const id of ['f0', 'f50', 'f99']) {
      expect([id, await ask(keeping, `User:a read Folder:${id}`)]).toEqual([id, true]);
      expect(sent).toHaveLength(1);
    }
    expect(await ask(keeping, 'User:a read Folder:g')).toBe(false);
    await table.database.query({
      text: `delete from penstock.tuples where subject_id = 'f60'`,
    });
    expect(await ask(keeping, 'User:a read Folder:f0')).toBe('left');
    await manyTimes(keeping, 'User:a read Folder:f0');
    expect(await ask(keeping, 'User:a read Folder:f0')).toBe(false);
    expect(await ask(keeping, 'User:a read Folder:f70')).toBe(true);
  });

  it('leaves names that take away, sets, and objects of which much is written', async () => {
    const keeping = keepingEngine();
    await table.replace([
      tuple('User:a member Team:t'),
      tuple('Team:t team Doc:1'),
      ...Array.from({ length: 20 }, (_, i) => tuple(`User:u${i} viewer Doc:1`)),
    ]);
    for (const text of ['User:a mixed Doc:1', 'Team:t#member read Doc:1', 'User:a edit Doc:1']) {
      await manyTimes(keeping, text);
      expect([text, await ask(keeping, text)]).toEqual([text, 'unasked']);
    }
    await manyTimes(keeping, 'User:a read Doc:1');
    expect(await ask(keeping, 'User:a read Doc:1')).not.toBe(false);
    expect(await ask(keeping, 'User:b read Doc:1')).not.toBe(true);
  });
});

describe('all of them', () => {
  it('reach tuples by an index that knows the resource, with a plan made while the table was empty', async () => {
    const database = await table.another();
    const asked: Queryable = {
      query: (statement) => {
        sent.push(statement);
        return database.query(statement);
      },
    };
    const ask = (reach: ProbeReach, of = 'User:a read Doc:other') => {
      const { subject, relation, resource } = tuple(of);
      const question = { subject, action: relation, resource };
      return engine.probe(asked, question, {}, reach);
    };
    sent = [];
    for (let i = 0; i < 8; i += 1)
      for (const reach of ['near', 'object', 'graph'] as const) await ask(reach);
    for (let i = 0; i < 8; i += 1)
      await Promise.all([ask('near'), ask('near', 'User:b read Doc:2')]);
    await table.replace(Array.from({ length: 3_000 }, (_, i) => tuple(`User:a owner Doc:d${i}`)));
    for (const { text, values } of [...sent.slice(0, 3), ...sent.slice(-1)]) {
      const { rows } = await table.database.query<{ 'QUERY PLAN': string }>({
        text: `explain (analyze, costs off) ${text}`,
        values: values ?? [],
      });
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
      expect(plan).toMatch(/tuples_by_resource/);
      expect(plan).not.toMatch(/tuples_counted|Seq Scan on tuples|Rows Removed/);
    }
  });
});
