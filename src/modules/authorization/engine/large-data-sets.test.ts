/** Answers where very much hangs on the object, on the subject, or on both: no limit turns into a refusal of something else. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTupleTable, type TupleTable } from '../../../../test/support/tuple-table.ts';
import { firstRowsText } from '../../../data/records/page/first-rows.ts';
import { pageOf } from '../../../data/records/page/page.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { parseDefinition } from '../model/definition.ts';
import { parseObject, parseSubject, type SubjectRef } from '../model/grammar.ts';
import { buildModel } from '../model/model.ts';
import { addIndexText, addSortIndexText, sortIndexName } from '../owner-columns.ts';
import { createEngine } from './create-engine.ts';
import { descentText } from './descent.ts';
import type { Engine, Question } from './engine.ts';
import { limits } from './limits.ts';

const model = buildModel(
  [
    { name: 'User', relations: {}, permissions: {} },
    { name: 'Group', relations: { member: ['User', 'Group#member'] }, permissions: {} },
    {
      name: 'Folder',
      relations: { viewer: ['User'], parent: ['Folder'] },
      permissions: { view: ['viewer', 'parent->view'] },
    },
    {
      name: 'Doc',
      relations: {
        owner: ['User'],
        reader: ['User', 'Group#member'],
        banned: ['User'],
        folder: ['Folder'],
      },
      permissions: {
        read: ['owner', 'reader', 'folder->view'],
        calm: { exclusion: { base: ['owner', 'reader', 'folder->view'], subtract: ['banned'] } },
      },
    },
  ].map(parseDefinition),
  0,
);

let table: TupleTable;
let engine: Engine;
beforeAll(async () => {
  table = await openTupleTable();
});
afterAll(() => table.close());

/** Tuples of one form: each part is SQL of a number `n` from 1. */
async function fill(
  count: number,
  [subject, relation, resource]: readonly [string, string, string],
): Promise<void> {
  const [type, id = '', set = ''] = subject.split(/[:#]/);
  const [resourceType, resourceId] = resource.split(':');
  await table.database.query({
    text: `insert into penstock.tuples (id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id)
      select gen_random_uuid(), '${type}', ${id}, '${set}', '${relation}', '${resourceType}', ${resourceId} from generate_series(1, ${count}) n`,
  });
}

const docId = (n: number): string => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`;
const docIdText = `('00000000-0000-7000-8000-' || lpad(cast(n as text), 12, '0'))`;

async function start(): Promise<void> {
  await table.replace([]);
  engine = createEngine(model);
}

const questionOf = (text: string): Question => {
  const [subject = '', action = '', resource = ''] = text.split(' ');
  return {
    subject: parseSubject(subject, 'subject'),
    action,
    resource: parseObject(resource, 'resource'),
  };
};

async function can(text: string): Promise<boolean | undefined> {
  return (await engine.check(table.database, [questionOf(text)]))[0];
}

/** Which of the first documents the predicate lets through. */
async function rows(subject: SubjectRef, action: string, use: 'row' | 'rows'): Promise<string[]> {
  const predicate = await engine.predicate(table.database, { subject, action, type: 'Doc' });
  const values: unknown[] = [[1, 2, 3].map(docId)];
  const where = predicate.compile('t0.id', (value) => `$${values.push(value)}`, use);
  const text = `select t0.id::text as id from unnest($1::uuid[]) t0(id) where ${where} order by 1`;
  return (await table.database.query<{ id: string }>({ text, values })).rows.map(({ id }) => id);
}

const user = (id: string): SubjectRef => ({ type: 'User', id, relation: '' });

describe('a document that is shared with very many groups', () => {
  const shared = 'Doc:shared';
  beforeAll(async () => {
    await start();
    await fill(12_000, [`Group:'g' || n#member`, 'member', `Group:'everyone'`]);
    await fill(1, [`Group:'everyone'#member`, 'reader', `Doc:'shared'`]);
    await fill(1, [`User:'member'`, 'member', `Group:'g11999'`]);
    await fill(1, [`User:'direct'`, 'reader', `Doc:'shared'`]);
    await fill(1, [`User:'out'`, 'member', `Group:'g5'`]);
    await fill(1, [`User:'out'`, 'banned', `Doc:'shared'`]);
  });

  it('answers each question about it', async () => {
    for (const id of ['member', 'direct', 'out'])
      expect([id, await can(`User:${id} read ${shared}`)]).toEqual([id, true]);
    expect(await can(`User:nobody read ${shared}`)).toBe(false);
    expect(await can(`User:member calm ${shared}`)).toBe(true);
    expect(await can(`User:out calm ${shared}`)).toBe(false);
  });

  it('answers many at once, and says why', async () => {
    const asked = ['member', 'nobody', 'direct'].map((id) =>
      questionOf(`User:${id} read ${shared}`),
    );
    expect(await engine.check(table.database, asked)).toEqual([true, false, true]);
    for (const question of asked) {
      const { allowed } = await engine.explain(table.database, question);
      expect([question.subject.id, allowed]).toEqual([
        question.subject.id,
        question.subject.id !== 'nobody',
      ]);
    }
  });

  it('tells who may', async () => {
    const resource = parseObject(shared, 'resource');
    const { items } = await engine.listSubjects(
      table.database,
      { resource, action: 'read', type: 'User' },
      { limit: 10 },
    );
    expect(items).toEqual(['User:direct', 'User:member', 'User:out']);
  });
});

describe('somebody who reaches more than can be named', () => {
  beforeAll(async () => {
    await start();
    await fill(1, [`User:'u'`, 'viewer', `Folder:'root'`]);
    await fill(100_100, [`Folder:'root'`, 'parent', `Folder:'f' || n`]);
    await fill(1, [`Folder:'f99'`, 'folder', `Doc:'${docId(1)}'`]);
    await fill(1, [`User:'u'`, 'owner', `Doc:'${docId(2)}'`]);
    await fill(1, [`Folder:'else'`, 'folder', `Doc:'${docId(3)}'`]);
  });

  it('reads the documents that it may read, one by one and in lists', async () => {
    for (const use of ['row', 'rows', 'row'] as const)
      for (const action of ['read', 'calm'])
        expect([use, action, ...(await rows(user('u'), action, use))]).toEqual([
          use,
          action,
          docId(1),
          docId(2),
        ]);
    expect(await can(`User:u read Doc:${docId(1)}`)).toBe(true);
    expect(await can(`User:u read Doc:${docId(3)}`)).toBe(false);
  });

  it('gets an answer also about what leads to very many objects', async () => {
    // Fewer are very many here: each of them is asked in one statement, also on a busy machine.
    engine = createEngine(model, undefined, { ...limits, tuples: 1_000 });
    await fill(1_500, [`Folder:'g' || n`, 'folder', `Doc:'${docId(3)}'`]);
    await fill(1, [`Folder:'f7'`, 'parent', `Folder:'g1400'`]);
    expect(await can(`User:u read Doc:${docId(3)}`)).toBe(true);
    expect(await can(`User:x read Doc:${docId(3)}`)).toBe(false);
  });
});

describe('tuples that came after the statistics', () => {
  beforeAll(async () => {
    await start();
    await fill(50, [`User:'v' || n`, 'viewer', `Folder:'first'`]);
    await table.database.query({ text: 'analyze penstock.tuples' });
    await fill(20_000, [`Folder:'root'`, 'parent', `Folder:'f' || n`]);
    await fill(1, [`User:'u'`, 'viewer', `Folder:'root'`]);
  });

  it('are found by the id of their object', async () => {
    const values: unknown[] = ['f1'];
    const goal = {
      subject: user('x'),
      name: { type: 'Folder', kind: 'action', name: 'view' },
    } as const;
    const text = descentText(model, goal, '(select $1::text)', (value) => `$${values.push(value)}`);
    const { rows } = await table.database.query<{ 'QUERY PLAN': string }>({
      text: `explain (analyze, costs off, timing off) select ${text}`,
      values,
    });
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).toMatch(/Index Cond: .*resource_id = b\.id/);
    const searches = [...plan.matchAll(/Index Searches: (\d+)/g)].map(([, n]) => Number(n));
    expect(Math.max(...searches)).toBeLessThan(20);
  });
});

describe('somebody who sees many rows of very many', () => {
  beforeAll(async () => {
    await start();
    await fill(5_000, [`User:'u'`, 'reader', `Doc:${docIdText}`]);
    await fill(3_000, [`User:'u'`, 'banned', `Doc:${docIdText}`]);
    await table.database.query({ text: 'analyze penstock.tuples' });
  });

  const planOf = async (action: string, use: 'row' | 'sorted'): Promise<string> => {
    const predicate = await engine.predicate(table.database, {
      subject: user('u'),
      action,
      type: 'Doc',
    });
    const values: unknown[] = [];
    const where = predicate.compile('t0.id', (value) => `$${values.push(value)}`, use);
    const text = `explain (analyze, costs off) select count(*) from (
      select ${docIdText}::uuid as id from generate_series(1, 5000) n) t0 where ${where}`;
    const { rows } = await table.database.query<{ 'QUERY PLAN': string }>({ text, values });
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  };

  it('is not asked about each row where all are looked at', async () => {
    const plan = await planOf('read', 'sorted');
    expect(plan).toMatch(/hashed SubPlan/);
    expect(plan).not.toMatch(/loops=5000/);
  });

  it('is tested for denials by an index that knows the row', async () => {
    const plan = await planOf('calm', 'row');
    expect(plan).not.toMatch(/tuples_counted/);
  });
});

/** Of all steps. */
const maxRows = (plan: string): number =>
  Math.max(...[...plan.matchAll(/rows=(\d+)/g)].map(([, n]) => Number(n)));

describe('somebody who owns many records, in the order of a field', () => {
  const owner = '01900000-0000-7000-8000-000000000001';
  const note = 'app."Note"';
  const notes = createEngine(
    buildModel(
      [
        { name: 'User', relations: {}, permissions: {} },
        {
          name: 'Note',
          relations: { owner: ['User'], reader: ['User'] },
          permissions: { read: ['owner', 'reader'] },
          ownerColumns: true,
        },
      ].map(parseDefinition),
      0,
    ),
  );
  const run = async (...texts: readonly string[]): Promise<void> => {
    for (const text of texts) await table.database.query({ text });
  };
  const schema = {
    rows: note,
    sortable: new Set(['_id', 'rank', 'other']),
    layout: { columns: { rank: { notNull: true }, other: { notNull: true } } },
  } as unknown as CompiledSchema;
  interface PageRequest {
    readonly sort?: string;
    /** Where the page before ended. */
    readonly last?: readonly string[];
    readonly rows?: string;
  }
  /** As the record engine reads a page: what the predicate finds first stands in the place of the table. */
  const pageText = async ({ sort, last, rows = note }: PageRequest) => {
    const predicate = await notes.predicate(table.database, {
      subject: user(owner),
      action: 'read',
      type: 'Note',
    });
    const cursors = { read: () => last ?? [], write: () => '' };
    const options = { limit: 20, ...(sort && { sort: [sort] }), ...(last && { cursor: 'later' }) };
    const page = pageOf({ schema, options, cursors });
    const values = [...page.values];
    const next = (value: unknown): string => `$${values.push(value)}`;
    const order = sort === undefined ? 'ids' : sort === '-rank' ? 'indexed' : 'sorted';
    const first = predicate.first?.way(page.among.count, order);
    expect(first?.key).toBe('merge');
    const source = first && firstRowsText(first, { rows, among: page.among }, { values, next });
    const text = page.text('true', source);
    const named = text.named.length === 0 ? '' : `with ${text.named.join(', ')} `;
    return { text: `${named}${text.rows}`, values };
  };
  const planOf = async (request: PageRequest): Promise<string> => {
    const { text, values } = await pageText(request);
    const { rows } = await table.database.query<{ 'QUERY PLAN': string }>({
      text: `explain (analyze, costs off, timing off) ${text}`,
      values,
    });
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  };

  beforeAll(async () => {
    await table.replace([]);
    await run(
      'create schema if not exists app',
      `create table ${note} ("_id" uuid primary key, rank int, other int, "@owner" uuid, "@ownerType" text collate "C")`,
      `insert into ${note} select gen_random_uuid(), n, n, case when n % 5 = 0 then '${owner}'::uuid else gen_random_uuid() end from generate_series(1, 40000) n`,
      `create index on ${note} (rank)`,
      addIndexText('Note', note),
      addSortIndexText({ type: 'Note', table: note, column: 'rank' }),
      `analyze ${note}`,
      `insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id)
        select gen_random_uuid(), 'User', '${owner}', 'reader', 'Note', "_id"::text from ${note} where rank in (39999, 7)`,
    );
  });

  it('gets the first of them, and of what is shared with them', async () => {
    const { rows } = await table.database.query<{ rank: number }>(
      await pageText({ sort: '-rank' }),
    );
    const expected = [40_000, 39_999, ...Array.from({ length: 18 }, (_, i) => 39_995 - 5 * i)];
    expect(rows.map(({ rank }) => rank)).toEqual(expected);
  });

  it('has them read from an index in that order, and no others', async () => {
    const plan = await planOf({ sort: '-rank' });
    expect(plan).toContain(sortIndexName('Note', 'rank'));
    expect(plan).not.toMatch(/Seq Scan on "?Note/);
    expect(maxRows(plan)).toBeLessThan(60);
  });

  it('has a later page begin in that index, where the one before ended', async () => {
    const later = { sort: '-rank', last: ['20000', '00000000-0000-0000-0000-000000000000'] };
    const { rows } = await table.database.query<{ rank: number }>(await pageText(later));
    const following = [20_000, ...Array.from({ length: 20 }, (_, i) => 19_995 - 5 * i)];
    expect(rows.map(({ rank }) => rank)).toEqual(following.slice(0, 20));
    const plan = await planOf(later);
    expect(plan).toContain(sortIndexName('Note', 'rank'));
    expect(maxRows(plan)).toBeLessThan(60);
    const byId = await planOf({ last: ['80000000-0000-0000-0000-000000000000'] });
    expect(byId).toMatch(/Index Cond: .*_id.* > /);
    expect(maxRows(byId)).toBeLessThan(60);
  });

  it('has those that fit a filter read from it as well', async () => {
    const rows = `(select t0.* from ${note} t0 where t0.other % 10 = 0)`;
    const plan = await planOf({ sort: '-rank', rows });
    expect(plan).toContain(sortIndexName('Note', 'rank'));
    expect(plan).not.toMatch(/Seq Scan on "?Note/);
    expect(maxRows(plan)).toBeLessThan(120);
  });

  it('has few read once for a page and their number, each by an index', async () => {
    const some = '01900000-0000-7000-8000-000000000002';
    await run(
      `update ${note} set "@owner" = '${some}' where rank between 101 and 199 and rank % 5 > 0`,
      `insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id)
        select gen_random_uuid(), 'User', '${some}', 'reader', 'Note', "_id"::text from ${note} where rank between 190 and 230`,
      `vacuum (analyze) ${note}`,
    );
    const predicate = await notes.predicate(table.database, {
      subject: user(some),
      action: 'read',
      type: 'Note',
    });
    const values: unknown[] = [];
    const next = (value: unknown): string => `$${values.push(value)}`;
    const text = `select count(*)::int as count, count(distinct t0."_id")::int as different from (${predicate.reached?.compile(note, next)}) t0`;
    const [found] = (await table.database.query({ text, values })).rows;
    expect(found).toEqual({ count: 113, different: 113 });
    const { rows } = await table.database.query<{ 'QUERY PLAN': string }>({
      text: `explain (analyze, costs off, timing off) ${text}`,
      values,
    });
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).toContain('Note@owner');
    expect(plan).not.toMatch(/Seq Scan on "?Note/);
    expect(maxRows(plan)).toBeLessThan(120);
  });

  it('has no more than their own looked at where no index gives the order', async () => {
    const plan = await planOf({ sort: '-other' });
    expect(plan).toContain('Note@owner');
    expect(plan).not.toMatch(/Seq Scan on "?Note/);
  });
});
