/**
 * Questions about sets that are too large to be named are answered all the same, by work that does not grow with them.
 * `SIZE` sets how large they are, with the limits as they are: `SIZE=1000000` asks about a million objects.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTupleTable, type TupleTable } from '../../../../test/support/tuple-table.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import type { RowPredicate } from '../../../kernel/permissions.ts';
import { parseDefinition } from '../model/definition.ts';
import { parseObject, parseSubject } from '../model/grammar.ts';
import { buildModel } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import { createEngine } from './create-engine.ts';
import { limits } from './limits.ts';
import { searchFromSubject } from './subject-search.ts';

/** Without a size, less is large. */
const sizes = process.env.SIZE
  ? limits
  : {
      reached: 5_000,
      tuples: 2_000,
      reachedForFew: 300,
      reachedTogether: 1_000,
      conditionValues: 3,
      packedFrom: 20,
      leading: 100,
    };

const SIZE = Number(process.env.SIZE ?? 5_500);
const DENIALS = Math.ceil(SIZE / 10);
const LEVELS = 100;
/** Milliseconds; generous, because of the million. */
const LONG = 600_000;

const engine = createEngine(
  buildModel(
    [
      { name: 'User', relations: {}, permissions: {} },
      { name: 'Group', relations: { member: ['User', 'Group#member'] }, permissions: {} },
      {
        name: 'Folder',
        relations: {
          viewer: ['User'],
          parent: ['Folder'],
          partner: ['Folder'],
          closed: ['User'],
          guest: ['User', 'User with marked'],
        },
        conditions: { marked: { eq: [{ attribute: 'mark' }, 1] } },
        permissions: {
          view: ['viewer', 'parent->view'],
          both: ['viewer', { intersection: ['parent->both', 'partner->both'] }],
          open: { exclusion: { base: ['view'], subtract: ['closed'] } },
          enter: {
            exclusion: { base: ['viewer', 'guest', 'parent->enter'], subtract: ['closed'] },
          },
        },
      },
      {
        name: 'Doc',
        relations: {
          owner: ['User'],
          reader: ['User', 'Group#member'],
          banned: ['User'],
          folder: ['Folder'],
          invited: ['User', 'User with marked'],
        },
        conditions: { marked: { eq: [{ attribute: 'mark' }, 1] } },
        permissions: {
          read: ['owner', 'reader', 'folder->view'],
          calm: { exclusion: { base: ['reader', 'folder->view'], subtract: ['banned'] } },
          careful: ['owner', 'folder->open'],
          visit: ['invited', 'folder->enter'],
          pair: ['owner', 'folder->both'],
        },
      },
    ].map(parseDefinition),
    0,
  ),
  undefined,
  sizes,
);

let table: TupleTable;
beforeAll(async () => {
  table = await openTupleTable();
  await table.replace([]);
});
afterAll(() => table.close());

/** More at once takes longer than a statement may. */
const FILLED_AT_ONCE = 50_000;

/** Tuples of one form: each part is SQL of a number `n` from 1. */
async function fill(
  count: number,
  [subject, relation, resource]: readonly [string, string, string],
  attributes?: Readonly<Record<string, unknown>>,
): Promise<void> {
  const condition = attributes ? `'marked', '${JSON.stringify(attributes)}'` : 'null, null';
  const [type, id = '', set = ''] = subject.split(/[:#]/);
  const [resourceType, resourceId] = resource.split(':');
  for (let first = 1; first <= count; first += FILLED_AT_ONCE)
    await table.database.query({
      text: `insert into penstock.tuples (id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id, condition, attributes)
        select gen_random_uuid(), '${type}', ${id}, '${set}', '${relation}', '${resourceType}', ${resourceId}, ${condition}
          from generate_series(${first}, ${Math.min(count, first + FILLED_AT_ONCE - 1)}) n`,
      limitMs: LONG,
    });
}

const docId = (n: number): string => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`;
const docText = `'00000000-0000-7000-8000-' || lpad(cast(n as text), 12, '0')`;
const user = (id: string) => parseSubject(`User:${id}`, 'subject');

interface Work {
  statements: number;
  rows: number;
}

/** The same database, where what it is asked is counted. */
function counted(database: Queryable): { readonly database: Queryable; readonly work: Work } {
  const work: Work = { statements: 0, rows: 0 };
  const query: Queryable['query'] = async (statement) => {
    const answer = await database.query(statement);
    work.statements += 1;
    work.rows += answer.rows.length;
    return answer as never;
  };
  return { database: { query } as Queryable, work };
}

/** Those of the documents that a predicate lets through. */
async function through(predicate: RowPredicate, ids: readonly string[]): Promise<string[]> {
  const values: unknown[] = [ids];
  const where = predicate.compile('d._id', (value) => `$${values.push(value)}`, 'row', 'd');
  const text = `select d._id::text as id from unnest($1::uuid[]) d(_id) where ${where} order by 1`;
  return (await table.database.query<{ id: string }>({ text, values })).rows.map(({ id }) => id);
}

/** What of these documents somebody may act on, asked one by one, and the work that each took at most. */
async function single(id: string, action: string, docs: readonly number[]) {
  const found: number[] = [];
  const most: Work = { statements: 0, rows: 0 };
  for (const n of docs) {
    const { database, work } = counted(table.database);
    const ids = [docId(n)];
    const predicate = await engine.predicate(database, {
      subject: user(id),
      action,
      type: 'Doc',
      ids,
    });
    if ((await through(predicate, ids)).length > 0) found.push(n);
    most.statements = Math.max(most.statements, work.statements);
    most.rows = Math.max(most.rows, work.rows);
  }
  return { found, most };
}

/** Everything that pages give, and the largest of them. */
async function walked(
  page: (cursor: string | undefined) => Promise<{ items: readonly string[]; cursor?: string }>,
): Promise<readonly string[]> {
  const items: string[] = [];
  let cursor: string | undefined;
  do {
    const next = await page(cursor);
    items.push(...next.items);
    cursor = next.cursor;
  } while (cursor !== undefined);
  return items;
}

describe('somebody who reaches more than is named', () => {
  beforeAll(async () => {
    await fill(1, [`User:'u'`, 'viewer', `Folder:'root'`]);
    await fill(SIZE, [`Folder:'root'`, 'parent', `Folder:'f' || n`]);
    await fill(LEVELS, [`Folder:'l' || n - 1`, 'parent', `Folder:'l' || n`]);
    await fill(1, [`Folder:'f7'`, 'parent', `Folder:'l0'`]);
    await fill(1, [`Folder:'f99'`, 'folder', `Doc:'${docId(1)}'`]);
    await fill(1, [`User:'u'`, 'owner', `Doc:'${docId(2)}'`]);
    await fill(1, [`Folder:'else'`, 'folder', `Doc:'${docId(3)}'`]);
    await fill(1, [`Folder:'l${LEVELS}'`, 'folder', `Doc:'${docId(4)}'`]);
    await fill(1, [`Folder:'f5'`, 'folder', `Doc:'${docId(5)}'`]);
    await fill(1, [`User:'u'`, 'closed', `Folder:'f5'`]);
    await fill(DENIALS, [`User:'u'`, 'banned', `Doc:${docText}`]);
    await fill(1, [`Folder:'f6'`, 'folder', `Doc:'${docId(DENIALS + 1)}'`]);
    await fill(1, [`User:'u'`, 'invited', `Doc:'${docId(7)}'`], { mark: 1 });
    await fill(1, [`User:'u'`, 'invited', `Doc:'${docId(8)}'`], { mark: 2 });
    await fill(1, [`User:'u'`, 'guest', `Folder:'else'`], { mark: 1 });
    await fill(1, [`Folder:'f5'`, 'parent', `Folder:'below'`]);
    await fill(1, [`Folder:'below'`, 'folder', `Doc:'${docId(9)}'`]);
    await table.database.query({ text: 'analyze penstock.tuples', limitMs: LONG });
  }, LONG);

  const docs = [1, 2, 3, 4, 5, DENIALS + 1];

  it(
    'has single records decided without what they reach',
    async () => {
      const read = await single('u', 'read', docs);
      expect(read.found).toEqual([1, 2, 4, 5, DENIALS + 1]);
      // The first of them finds out that it is much, and no more than that is ever loaded.
      expect(read.most.rows).toBeLessThanOrEqual(2 * sizes.reachedForFew + 10);
      // What is little of it is looked up again: nothing is kept here.
      const again = await single('u', 'read', docs);
      expect(again.most).toEqual({ statements: 1, rows: 0 });
    },
    LONG,
  );

  it(
    'has them decided where rights above them are taken away again',
    async () => {
      const careful = await single('u', 'careful', docs);
      expect(careful.found).toEqual([1, 2, 4, DENIALS + 1]);
      expect(careful.most.rows).toBeLessThanOrEqual(2 * sizes.reachedForFew);
      const calm = await single('u', 'calm', docs);
      expect(calm.found).toEqual([DENIALS + 1]);
      expect((await single('x', 'careful', docs)).found).toEqual([]);
    },
    LONG,
  );

  it(
    'has several records decided together',
    async () => {
      for (const action of ['read', 'careful']) {
        const ids = docs.map(docId);
        const subject = user('u');
        const predicate = await engine.predicate(table.database, {
          subject,
          action,
          type: 'Doc',
          ids,
        });
        const found = action === 'read' ? [1, 2, 4, 5, DENIALS + 1] : [1, 2, 4, DENIALS + 1];
        expect(await through(predicate, ids)).toEqual(found.map(docId));
      }
    },
    LONG,
  );

  it(
    'has all rows that they may act on found by one statement, whatever is taken away or has conditions',
    async () => {
      for (const [action, expected] of [
        ['read', [1, 2, 4, 5, 9, DENIALS + 1]],
        ['careful', [1, 2, 4, 9, DENIALS + 1]],
        ['calm', [DENIALS + 1]],
        // Of two with a condition it holds for one; and who is kept out of a folder is kept out of what lies below it.
        ['visit', [1, 3, 4, 7, DENIALS + 1]],
      ] as const) {
        const subject = user('u');
        const predicate = await engine.predicate(table.database, { subject, action, type: 'Doc' });
        const found = await through(predicate, [...docs, 7, 8, 9].map(docId));
        expect([action, ...found]).toEqual([action, ...expected.map(docId)]);
      }
    },
    LONG,
  );

  it(
    'has single questions answered where both sides are large',
    async () => {
      const asked = [1, 2, 3, 4, 5, 7, 8, 9].map((n) => ({
        subject: user('u'),
        action: 'visit',
        resource: parseObject(`Doc:${docId(n)}`, 'resource'),
      }));
      const answers = await engine.check(table.database, asked);
      expect(answers).toEqual([true, false, true, true, false, true, false, false]);
    },
    LONG,
  );

  it(
    'has contextual tuples count where both sides are large',
    async () => {
      const about = `Doc:${docId(DENIALS + 30)}`;
      const groups = sizes.tuples + 100;
      await fill(groups, [`Group:'g' || n#member`, 'reader', `Doc:'${docId(DENIALS + 30)}'`]);
      const asked = (action: string) => ({
        subject: user('u'),
        action,
        resource: parseObject(about, 'resource'),
      });
      const tuple = (text: string): Tuple => {
        const [subject = '', relation = '', resource = ''] = text.split(' ');
        return {
          subject: parseSubject(subject, 'subject'),
          relation,
          resource: parseObject(resource, 'resource'),
        };
      };
      const banned = `User:u banned ${about}`;
      for (const [action, given, expected] of [
        ['read', [], false],
        ['read', [`Folder:f7 folder ${about}`], true],
        ['read', [`Folder:else folder ${about}`], false],
        ['read', [`Folder:else folder ${about}`, 'Folder:f7 parent Folder:else'], true],
        ['read', ['User:u member Group:g3'], true],
        ['read', ['User:other member Group:g3'], false],
        ['read', [`User:u owner ${about}`], true],
        ['calm', [`Folder:f7 folder ${about}`], true],
        ['calm', [`Folder:f7 folder ${about}`, banned], false],
        ['calm', ['User:u member Group:g3'], true],
        ['calm', ['User:u member Group:g3', banned], false],
        ['calm', [banned], false],
      ] as const) {
        const contextual = given.map(tuple);
        expect([
          action,
          given,
          ...(await engine.check(table.database, [asked(action)], { contextual })),
        ]).toEqual([action, given, expected]);
      }
      await table.database.query({
        text: `delete from penstock.tuples where resource_id = $1`,
        values: [docId(DENIALS + 30)],
      });
    },
    LONG,
  );

  it(
    'has rows found where rights need two ways through themselves at once',
    async () => {
      // Both lead to the root, at once or by way of another that does; of the last, one only.
      const twoWays: readonly (readonly [string, readonly string[], readonly string[]])[] = [
        ['duo', ['root'], ['root']],
        ['trio', ['duo', 'f8'], ['duo', 'else']],
        ['round', ['trio', 'round'], ['duo', 'round']],
        ['half', ['trio'], ['else', 'half']],
      ];
      for (const [n, [folder, parents, partners]] of twoWays.entries()) {
        for (const parent of parents)
          await fill(1, [`Folder:'${parent}'`, 'parent', `Folder:'${folder}'`]);
        for (const partner of partners)
          await fill(1, [`Folder:'${partner}'`, 'partner', `Folder:'${folder}'`]);
        await fill(1, [`Folder:'${folder}'`, 'folder', `Doc:'${docId(DENIALS + 10 + n)}'`]);
      }
      const asked = [1, 2, ...twoWays.map((_, n) => DENIALS + 10 + n)];
      const held = [2, DENIALS + 10, DENIALS + 11, DENIALS + 12];
      const subject = user('u');
      const predicate = await engine.predicate(table.database, {
        subject,
        action: 'pair',
        type: 'Doc',
      });
      expect(await through(predicate, asked.map(docId))).toEqual(held.map(docId));
      const questions = asked.map((n) => ({
        subject,
        action: 'pair',
        resource: parseObject(`Doc:${docId(n)}`, 'resource'),
      }));
      expect(await engine.check(table.database, questions)).toEqual(
        asked.map((n) => held.includes(n)),
      );
      await table.database.query({
        text: `delete from penstock.tuples where resource_id = any($1) or (resource_type = 'Doc' and subject_id = any($1))`,
        values: [twoWays.map(([folder]) => folder)],
      });
    },
    LONG,
  );

  it(
    'is told what to do where conditions have too many different values for a list',
    async () => {
      if (sizes.conditionValues > 3) return;
      for (const mark of [3, 4])
        await fill(1, [`User:'x'`, 'invited', `Doc:'${docId(90 + mark)}'`], { mark });
      const question = { subject: user('u'), action: 'visit', type: 'Doc' };
      await expect(engine.predicate(table.database, question)).rejects.toMatchObject({
        status: 400,
        code: 'PERMISSION_SET_TOO_LARGE',
        message: expect.stringMatching(
          /More than 3 different sets of attributes .* by a rule instead/,
        ),
      });
      await table.database.query({ text: `delete from penstock.tuples where subject_id = 'x'` });
    },
    LONG,
  );

  it(
    'gets a list of resources, page by page',
    async () => {
      const question = { subject: user('u'), type: 'Doc' };
      for (const [action, expected] of [
        ['read', [1, 2, 4, 5, 9, DENIALS + 1]],
        ['careful', [1, 2, 4, 9, DENIALS + 1]],
      ] as const) {
        const asked = { ...question, action };
        const found = await walked((cursor) =>
          engine.listResources(table.database, asked, { limit: 1_000, ...(cursor && { cursor }) }),
        );
        expect(found).toEqual(expected.map(docId));
      }
    },
    LONG,
  );
});

describe('an object below which more stands than is named', () => {
  const shared = parseObject('Doc:shared', 'resource');
  beforeAll(async () => {
    await fill(SIZE, [`Group:'g' || n#member`, 'member', `Group:'all'`]);
    await fill(1, [`Group:'all'#member`, 'reader', `Doc:'shared'`]);
    await fill(120, [`User:'m' || lpad(cast(n as text), 4, '0')`, 'member', `Group:'g' || n`]);
    await fill(120, [`User:'o' || lpad(cast(n as text), 4, '0')`, 'member', `Group:'other'`]);
    await fill(20, [`User:'m' || lpad(cast(n as text), 4, '0')`, 'banned', `Doc:'shared'`]);
    await fill(1, [`User:'direct'`, 'reader', `Doc:'shared'`]);
    await table.database.query({ text: 'analyze penstock.tuples', limitMs: LONG });
  }, LONG);

  const members = Array.from({ length: 120 }, (_, n) => `User:m${String(n + 1).padStart(4, '0')}`);
  const who = (action: string, limit: number) =>
    walked((cursor) =>
      engine.listSubjects(
        table.database,
        { resource: shared, action, type: 'User' },
        { limit, ...(cursor && { cursor }) },
      ),
    );

  it(
    'tells who may, page by page',
    async () => {
      expect(await who('read', 70)).toEqual(['User:direct', ...members]);
      expect(await who('read', 1_000)).toEqual(['User:direct', ...members]);
    },
    LONG,
  );

  it(
    'leaves out from whom it is taken away',
    async () => {
      expect(await who('calm', 100)).toEqual(['User:direct', ...members.slice(20)]);
    },
    LONG,
  );

  it(
    'loads no more than candidates for a page',
    async () => {
      const { database, work } = counted(table.database);
      const question = { resource: shared, action: 'read', type: 'User' };
      await engine.listSubjects(database, question, { limit: 20 });
      expect(work.rows).toBeLessThan(5_000);
    },
    LONG,
  );
});

describe('an object in a relation to itself', () => {
  it('is decided from the side of the subject by what it has on itself', async () => {
    const model = buildModel(
      [
        { name: 'User', relations: {}, permissions: {} },
        { name: 'Club', relations: { member: ['User'] }, permissions: { enter: ['*'] } },
        {
          name: 'Ring',
          relations: { link: ['Ring'], club: ['Club'] },
          permissions: {
            first: ['link->second'],
            second: ['link->third'],
            third: ['club->enter'],
            outside: { exclusion: { base: ['*'], subtract: ['first'] } },
          },
        },
      ].map(parseDefinition),
      0,
    );
    await fill(1, [`Ring:'self'`, 'link', `Ring:'self'`]);
    await fill(1, [`Club:'open'`, 'club', `Ring:'self'`]);
    await fill(1, [`Ring:'bare'`, 'link', `Ring:'bare'`]);
    const holds = async (action: string, id: string): Promise<boolean | undefined> => {
      const name = { type: 'Ring', kind: 'action', name: action } as const;
      const question = { subject: user('u'), object: { type: 'Ring', id }, name };
      const around = { context: {}, contextual: [] };
      const scope = { model, database: table.database };
      return (await searchFromSubject(scope, question, around, 1_000))?.sure;
    };
    expect([await holds('first', 'self'), await holds('outside', 'self')]).toEqual([true, false]);
    expect([await holds('first', 'bare'), await holds('outside', 'bare')]).toEqual([false, true]);
  });
});

describe('records whose fields lead to more than is named', () => {
  it('have what an empty field names count for nothing, also where whatever it could name counts', async () => {
    const definitions = [
      { name: 'User', relations: {}, permissions: {} },
      {
        name: 'Place',
        relations: { closed: ['User'] },
        permissions: { look: { exclusion: { base: ['*'], subtract: ['closed'] } } },
      },
      {
        name: 'Seat',
        relations: { owner: ['User'], spot: ['Place'] },
        permissions: { read: ['owner', 'spot->look'] },
      },
    ].map(parseDefinition);
    const spot = { field: 'spot', type: 'Place', many: false };
    const model = buildModel(
      definitions.map((one) =>
        one.name === 'Seat' ? { ...one, fields: new Map([['spot', spot]]) } : one,
      ),
      0,
    );
    await table.database.query({ text: 'create schema if not exists app' });
    await table.database.query({
      text: 'create table app."Seat" (_id uuid primary key, spot uuid)',
    });
    await table.database.query({
      text: `insert into app."Seat" values ('${docId(1)}', null), ('${docId(2)}', '${docId(3)}')`,
    });
    const few = createEngine(model, undefined, { ...sizes, reached: 0, reachedForFew: 0 });
    const predicate = await few.predicate(table.database, {
      subject: user('u'),
      action: 'read',
      type: 'Seat',
    });
    for (const alias of ['d', undefined]) {
      const values: unknown[] = [];
      const where = predicate.compile('d._id', (value) => `$${values.push(value)}`, 'row', alias);
      const text = `select d._id::text as id from app."Seat" d where ${where}`;
      const { rows } = await table.database.query<{ id: string }>({ text, values });
      expect(rows.map(({ id }) => id)).toEqual([docId(2)]);
    }
  });
});
