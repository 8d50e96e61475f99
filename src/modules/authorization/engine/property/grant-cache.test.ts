/** What nodes keep between questions never makes a difference: two of them, without any message between them, against the naive evaluator. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  buildDataSet,
  dataSetSeed,
  objectsOf,
} from '../../../../../test/support/permission-data/data-sets.ts';
import {
  type NaiveDataSet,
  naiveCheck,
} from '../../../../../test/support/permission-data/naive.ts';
import { openTupleTable, type TupleTable } from '../../../../../test/support/tuple-table.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import type { RowPredicate } from '../../../../kernel/permissions.ts';
import { parseDefinition } from '../../model/definition.ts';
import { formatSubject, parseObject, parseSubject, type SubjectRef } from '../../model/grammar.ts';
import { buildModel, type Model } from '../../model/model.ts';
import type { Tuple } from '../../model/tuple.ts';
import { createEngine } from '../create-engine.ts';
import type { Engine, Question, ResourceQuestion } from '../engine.ts';
import { createGrantCache, type GrantCache } from '../grant-cache/grant-cache.ts';

const RUNS = Number(process.env.AGREEMENT_RUNS ?? 15) * 2;
const STEPS = 12;

/** A node: connections, and what it keeps. */
interface Node {
  readonly database: Database;
  readonly reach: GrantCache;
  /** Ways up that were searched in the database. */
  readonly searches: () => number;
}

let table: TupleTable;
let nodes: readonly [Node, Node];

beforeAll(async () => {
  table = await openTupleTable();
  await table.database.query({ text: 'create table rows (_id uuid primary key)' });
  const ids = objectsOf(0, 'Doc').map(({ id }) => id);
  await table.database.query({
    text: 'insert into rows select * from unnest($1::uuid[])',
    values: [ids],
  });
  nodes = [nodeOn(table.database), nodeOn(await table.another())];
});
afterAll(() => table.close());

function nodeOn(opened: Database): Node {
  let searches = 0;
  const query: Database['query'] = (statement) => {
    if (statement.text.startsWith('with recursive') && statement.text.includes('direct as'))
      searches += 1;
    return opened.query(statement);
  };
  const database = Object.assign(Object.create(opened), { query }) as Database;
  return { database, reach: createGrantCache(database), searches: () => searches };
}

/** As the record engine asks: with what is kept, and again when that is not true any more; with the guard in the statement, or beside it. */
async function rowsOf(
  { database, reach }: Node,
  engine: Engine,
  question: ResourceQuestion,
  guarded: boolean,
): Promise<readonly string[]> {
  const read = async (predicate: RowPredicate) => {
    const values: unknown[] = [];
    const next = (value: unknown): string => `$${values.push(value)}`;
    const rows = `select array_agg(_id::text order by _id) from rows t0 where ${predicate.compile('t0._id', next)}`;
    const text = `select (${rows}) as ids, ${(guarded && predicate.guard?.(next)) || 'null::boolean'} as current`;
    return (
      await database.query<{ ids: string[] | null; current: boolean | null }>({ text, values })
    ).rows[0];
  };
  const predicate = await engine.predicate(database, question, reach.catchUp);
  const inside = guarded && predicate.guard !== undefined;
  const [optimistic, confirmed] = await Promise.all([
    read(predicate),
    inside || predicate.confirm?.(),
  ]);
  if (confirmed && (!inside || optimistic?.current)) return optimistic?.ids ?? [];
  await reach.catchUp();
  return (await read(await engine.predicate(database, question)))?.ids ?? [];
}

const enginesOf = (model: Model): readonly Engine[] =>
  nodes.map(({ reach }) => createEngine(model, reach));

const step = fc.record({
  tuple: fc.nat(),
  writer: fc.nat(1),
  asker: fc.nat(1),
  subject: fc.nat(2),
  action: fc.nat(1),
  guarded: fc.boolean(),
});

describe('what nodes keep', () => {
  it(
    'agrees with the naive evaluator after every write of either node',
    async () => {
      let asked = 0;
      let checked = 0;
      const begun = nodes.map(({ searches }) => searches());
      await fc.assert(
        fc.asyncProperty(
          dataSetSeed,
          fc.array(step, { minLength: STEPS, maxLength: STEPS }),
          async (seed, steps) => {
            const { model, definitions, tuples } = buildDataSet(seed, 0);
            const engines = enginesOf(model);
            const stored = new Map<number, string>();
            const initial = tuples.flatMap((_, i) => (i % 2 === 0 ? [i] : []));
            const ids = await table.replace(initial.map((i) => tuples[i] as Tuple));
            for (const [n, i] of initial.entries()) stored.set(i, ids[n] ?? '');
            for (const { tuple, writer, asker, subject, action, guarded } of steps) {
              // Most steps ask without a write between them: that is what keeping is for.
              if (tuple % 3 === 0)
                await toggle(nodes[writer] as Node, tuples, tuple % tuples.length, stored);
              const present = [...stored.keys()].map((i) => tuples[i] as Tuple);
              const question = {
                subject: subjects[subject] as SubjectRef,
                action: `a${action}`,
                type: 'Doc0',
              };
              const found = await rowsOf(
                nodes[asker] as Node,
                engines[asker] as Engine,
                question,
                guarded,
              );
              asked += 1;
              compare(question, found, { definitions, tuples: present });
              const held = { node: nodes[asker] as Node, engine: engines[asker] as Engine };
              checked += await compareHeld(held, question, { definitions, tuples: present });
            }
          },
        ),
        { numRuns: RUNS },
      );
      const searched = nodes.reduce(
        (sum, { searches }, i) => sum + searches() - (begun[i] ?? 0),
        0,
      );
      expect(searched).toBeLessThan(asked);
      expect(checked).toBeGreaterThan(asked / 20);
    },
    RUNS * 10_000,
  );

  it('holds for the next question of anybody while everybody writes and asks', async () => {
    const engines = enginesOf(teams);
    await table.replace([]);
    const doc = objectsOf(0, 'Doc')[0]?.id ?? '';
    await table.add([tuple(`Team:top owner Team:t`), tuple(`Team:t owner Doc:${doc}`)]);
    const life = async (n: number): Promise<void> => {
      const subject = parseSubject(`User:u${n}`, 'subject');
      for (let round = 0; round < 12; round += 1) {
        const ids = await table.add([
          tuple(`User:u${n} owner Team:${round % 2 === 0 ? 't' : 'top'}`),
        ]);
        const side = (n + round) % 2;
        const sees = () =>
          rowsOf(
            nodes[side] as Node,
            engines[side] as Engine,
            { subject, action: 'read', type: 'Doc' },
            round % 3 === 0,
          );
        const check = () => {
          const question = { subject, action: 'read', resource: { type: 'Doc', id: doc } };
          return heldAnswer(
            { node: nodes[side] as Node, engine: engines[side] as Engine },
            question,
          );
        };
        expect([n, round, ...(await sees())]).toEqual([n, round, doc]);
        expect([n, round, (await check()) ?? true]).toEqual([n, round, true]);
        await table.remove(ids);
        const [after, rows] = await Promise.all([check(), sees()]);
        expect([n, round, after ?? false, ...rows]).toEqual([n, round, false]);
      }
    };
    await Promise.all(Array.from({ length: 20 }, (_, n) => life(n)));
  }, 60_000);

  it('ends when a relation on the way expires', async () => {
    const engines = enginesOf(teams);
    const doc = objectsOf(0, 'Doc')[0]?.id ?? '';
    await table.replace([tuple('User:u owner Team:t'), tuple(`Team:t owner Doc:${doc}`)]);
    const question = { subject: parseSubject('User:u', 'subject'), action: 'read', type: 'Doc' };
    const ask = () => rowsOf(nodes[0], engines[0] as Engine, question, true);
    await table.database.query({
      text: `update penstock.tuples set expires_at = now() + interval '1 hour' where subject_type = 'User'`,
    });
    for (let i = 0; i < 3; i += 1) expect(await ask()).toEqual([doc]);
    const before = nodes[0].searches();
    expect(await ask()).toEqual([doc]);
    expect(nodes[0].searches()).toBe(before);
    const later = async () => ({ revision: 0, now: Date.now() + 2 * 3_600_000 });
    const predicate = await engines[0]?.predicate(nodes[0].database, question, later);
    expect(await predicate?.confirm?.()).toBe(false);
    expect(await ask()).toEqual([doc]);
    expect(nodes[0].searches()).toBe(before + 1);
  });

  it('is not taken from a transaction that has not committed', async () => {
    const [, engine] = enginesOf(teams);
    const doc = objectsOf(0, 'Doc')[0]?.id ?? '';
    await table.replace([tuple(`Team:t owner Doc:${doc}`)]);
    const question = { subject: parseSubject('User:u', 'subject'), action: 'read', type: 'Doc' };
    const ask = () => rowsOf(nodes[1], engine as Engine, question, true);
    for (let i = 0; i < 3; i += 1) expect(await ask()).toEqual([]);
    const undone = table.database.transaction(async () => {
      await table.add([tuple('User:u owner Team:t')]);
      // The other node asks from outside of the transaction.
      expect(await ask()).toEqual([]);
      throw new Error('undone');
    });
    await expect(undone).rejects.toThrow('undone');
    expect(await ask()).toEqual([]);
    const { promise: written, resolve } = Promise.withResolvers<void>();
    const { promise: told, resolve: tell } = Promise.withResolvers<void>();
    const open = table.database.transaction(async () => {
      await table.add([tuple('User:u owner Team:t')]);
      resolve();
      await told;
    });
    await written;
    // Asked while the transaction is open, so that what is kept is younger than what it wrote.
    expect(await ask()).toEqual([]);
    tell();
    await open;
    expect(await ask()).toEqual([doc]);
  });
});

const places = [{ place: 'home' }, { place: 'work' }] as const;
const subjects: readonly SubjectRef[] = ['User0:user0', 'User0:user1', 'Group0:group0'].map(
  (text) => parseSubject(text, 'subject'),
);

/** Rows that hang on a place, which the question does not give, may be left out. */
function compare(
  { subject, action }: ResourceQuestion,
  found: readonly string[],
  { definitions, tuples }: Pick<NaiveDataSet, 'definitions' | 'tuples'>,
): void {
  const now = new Date().toISOString();
  const certain = objectsOf(0, 'Doc')
    .filter((doc) =>
      places.every((context) =>
        naiveCheck({ definitions, tuples, context, now }, subject, action, doc),
      ),
    )
    .map(({ id }) => id);
  const label = `${formatSubject(subject)} ${action}`;
  if (tuples.some(({ condition }) => condition === 'place')) {
    expect([label, ...found.filter((id) => !certain.includes(id))]).toEqual([label]);
  } else expect([label, ...found]).toEqual([label, ...certain]);
}

interface Asked {
  readonly node: Node;
  readonly engine: Engine;
}

const heldAnswer = async (
  { node, engine }: Asked,
  question: Question,
): Promise<boolean | undefined> =>
  (await engine.probe(node.database, question, {}, 'held'))?.allowed;

/** Checks that rest on what is kept are true of what is stored now, or not made. Answers how many were made. */
async function compareHeld(
  asked: Asked,
  { subject, action, type }: ResourceQuestion,
  naive: Pick<NaiveDataSet, 'definitions' | 'tuples'>,
): Promise<number> {
  let made = 0;
  const now = new Date().toISOString();
  for (const { id } of objectsOf(0, 'Doc')) {
    const resource = { type, id };
    const allowed = await heldAnswer(asked, { subject, action, resource });
    if (allowed === undefined) continue;
    const label = `${formatSubject(subject)} ${action} ${id}`;
    const truth = naiveCheck({ ...naive, context: {}, now }, subject, action, resource);
    expect([label, allowed]).toEqual([label, truth]);
    made += 1;
  }
  return made;
}

async function toggle(
  { database }: Node,
  tuples: readonly Tuple[],
  index: number,
  stored: Map<number, string>,
): Promise<void> {
  const id = stored.get(index);
  const one = tuples[index];
  if (id !== undefined) {
    await database.query({ text: 'delete from penstock.tuples where id = $1', values: [id] });
    stored.delete(index);
  } else if (one) {
    const [written] = await table.add([one]);
    stored.set(index, written ?? '');
  }
}

const teams = buildModel(
  [
    { name: 'User', relations: {}, permissions: {} },
    {
      name: 'Team',
      relations: { owner: ['User', 'Team'] },
      permissions: { read: ['owner', 'owner->read'] },
    },
    {
      name: 'Doc',
      relations: { owner: ['User', 'Team'] },
      permissions: { read: ['owner', 'owner->read'] },
    },
  ].map(parseDefinition),
  0,
);

/** `User:a owner Team:t`. */
function tuple(text: string): Tuple {
  const [subject = '', relation = '', resource = ''] = text.split(' ');
  return {
    subject: parseSubject(subject, 'subject'),
    relation,
    resource: parseObject(resource, 'resource'),
  };
}
