/** The engine agrees with the naive evaluator: check, both lists and the row predicate, before and after deletions. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  buildDataSet,
  type DataSetSeed,
  dataSetSeed,
  hasRecords,
  objectsOf,
  type RandomDataSet,
  type WrittenTuple,
} from '../../../../../test/support/permission-data/data-sets.ts';
import { memoryOf } from '../../../../../test/support/permission-data/memory.ts';
import {
  type NaiveDataSet,
  naiveCheck,
} from '../../../../../test/support/permission-data/naive.ts';
import {
  BATCH,
  recordColumns,
  recordTypes,
  writeRecords,
} from '../../../../../test/support/permission-data/record-rows.ts';
import {
  type Asked,
  compareWays,
  numberOf,
  reachedOf,
  rowsOf,
  waysTaken,
} from '../../../../../test/support/permission-data/row-forms.ts';
import { openTupleTable, type TupleTable } from '../../../../../test/support/tuple-table.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import { isExact, originsOf } from '../../model/expansion-rules.ts';
import { everybody, formatSubject, type ObjectRef, type SubjectRef } from '../../model/grammar.ts';
import { tupleProblem } from '../../model/tuple.ts';
import { isSelf, resolveName } from '../ask.ts';
import { createEngine } from '../create-engine.ts';
import { isReachable } from '../descent.ts';
import type { Engine, Page, Question, Reason, ResourceQuestion } from '../engine.ts';
import { createGrantCache, type GrantCache } from '../grant-cache/grant-cache.ts';
import { limits } from '../limits.ts';
import { principalsOf } from '../principals.ts';
import { rowPredicate } from '../rows/row-predicate.ts';
import { lookupKey, lookupsTo } from '../rows/row-sources.ts';
import type { Size } from '../rows/size-estimate.ts';
import { searchFromSubject } from '../subject-search.ts';

/** Runs of up to `BATCH` data sets each: a few with every test, always the same; many others with `AGREEMENT_RUNS=300 AGREEMENT_SEED=1`. */
const RUNS = Number(process.env.AGREEMENT_RUNS ?? 5);
const SEED = Number(process.env.AGREEMENT_SEED ?? 20_261_123);
/** One run of them, as a failure names it: `AGREEMENT_PATH=5`. */
const PATH = process.env.AGREEMENT_PATH;
/** Milliseconds that one run may take. It takes about one second where nothing else works; a busy machine shall not fail it. */
const RUN_LIMIT = 60_000;

let table: TupleTable;
/** What subjects are known to reach, in all data sets. */
let reaches: GrantCache;
beforeAll(async () => {
  table = await openTupleTable();
  reaches = createGrantCache(table.database);
  await table.database.query({
    text: `create table rows (_id uuid primary key, dataSet integer not null, ${recordColumns})`,
  });
  await table.database.query({ text: 'create schema if not exists app' });
  for (const type of recordTypes)
    await table.database.query({
      text: `create table app."${type}" (_id uuid primary key, ${recordColumns})`,
    });
});
afterAll(() => table.close());

/** What single statements decided, in all data sets. */
const probed = {
  near: { allowed: 0, denied: 0 },
  object: { allowed: 0, denied: 0 },
  graph: { allowed: 0, denied: 0 },
  held: { allowed: 0, denied: 0 },
};

const unnamedCompared = { answered: 0, refused: 0 };
const givenCompared = { answered: 0, refused: 0 };
const reachedCompared = { found: 0 };

const contexts = [{ place: 'home' }, { place: 'work' }] as const;

describe('the engine', () => {
  it(
    'agrees with the naive evaluator on random models',
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(dataSetSeed, { minLength: 1, maxLength: BATCH, size: 'max' }),
          (seeds) => compareAll(table, seeds),
        ),
        // A smaller example would take longer to be found than the test has.
        {
          numRuns: RUNS,
          seed: SEED,
          endOnFailure: true,
          ...(PATH !== undefined && { path: PATH }),
        },
      );
      for (const { allowed, denied } of Object.values(probed))
        expect(Math.min(allowed, denied)).toBeGreaterThan(0);
      expect(reachedCompared.found).toBeGreaterThan(20);
      expect(unnamedCompared.answered).toBeGreaterThan(20 * unnamedCompared.refused);
      expect(givenCompared.answered).toBeGreaterThan(20 * givenCompared.refused);
      for (const way of ['ask', 'find', 'merge', 'walk 32'])
        for (const end of ['full', 'short'])
          expect([way, end, waysTaken.has(`${way} ${end}`)]).toEqual([way, end, true]);
    },
    RUNS * RUN_LIMIT,
  );
});

async function compareAll(
  { database, ...table }: TupleTable,
  seeds: readonly DataSetSeed[],
): Promise<void> {
  const dataSets = seeds.map((seed, i) => buildDataSet(seed, i));
  await database.query({ text: 'truncate rows' });
  const docs = dataSets.flatMap((_, i) =>
    objectsOf(i, 'Doc')
      .filter((d) => isRow(i, d))
      .map(({ id }) => ({ id, dataSet: i })),
  );
  await database.query({
    text: 'insert into rows select * from unnest($1::uuid[], $2::integer[])',
    values: [docs.map(({ id }) => id), docs.map(({ dataSet }) => dataSet)],
  });
  const all = dataSets.flatMap((w) => w.tuples);
  const isField = ({ resource, relation, inColumns }: WrittenTuple): boolean =>
    inColumns === true ||
    dataSets.some(({ model }) => model.fieldOf(resource.type, relation) !== undefined);
  const tuples = all.filter((tuple) => !isField(tuple));
  const ids = await table.replace(tuples);
  await writeRecords(database, all.filter(isField));
  // Of some it is known that they lead to a row; of others what is noted is about another table.
  await database.query({
    text: `update penstock.tuples t set row_of = case get_byte(uuid_send(t.id), 15) % 4 when 0 then null when 1 then 1 else 'rows'::regclass::oid end
      from rows r where r._id = t.resource_uuid`,
  });
  await Promise.all(dataSets.map((dataSet, i) => compare(database, { ...dataSet, number: i })));
  await table.remove(ids.filter((_, i) => tuples[i]?.deleted));
  await writeRecords(
    database,
    all.filter((tuple) => isField(tuple) && !tuple.deleted),
  );
  await Promise.all(
    dataSets.map(async (dataSet, i) => {
      const tuples = dataSet.tuples.filter((t) => !t.deleted);
      const given = dataSet.tuples.filter((t) => t.deleted);
      if (given.length > 0) await compare(database, { ...dataSet, tuples, given, number: i });
    }),
  );
}

/** One of three documents of every other data set is not there, whatever is written about it. */
const isRow = (dataSet: number, { id }: { readonly id: string }): boolean =>
  dataSet % 2 === 0 || hasRecords(dataSet) || id !== objectsOf(dataSet, 'Doc')[1]?.id;

interface NumberedDataSet extends RandomDataSet {
  readonly number: number;
  /** Tuples that are not stored any more: given with a question, they count for it. */
  readonly given?: readonly WrittenTuple[];
}

async function compare(database: Database, dataSet: NumberedDataSet): Promise<void> {
  // To some most things are too large to be named.
  const engine = createEngine(
    dataSet.model,
    undefined,
    dataSet.number % 6 === 0 ? tiny : undefined,
  );
  const naive: NaiveDataSet = {
    definitions: dataSet.definitions,
    tuples: dataSet.tuples,
    context: {},
    now: new Date().toISOString(),
  };
  for (const subject of subjectsOf(dataSet.number)) {
    await compareChecks({ database, engine, dataSet, naive }, subject);
    await compareRows({ database, engine, dataSet, naive }, subject);
  }
  await compareSubjects({ database, engine, dataSet, naive });
}

const tiny = {
  tuples: 10_000,
  reached: 0,
  reachedForFew: 0,
  reachedTogether: 1,
  conditionValues: 100_000,
  packedFrom: 0,
  leading: 1,
};

interface Comparison {
  readonly database: Database;
  readonly engine: Engine;
  readonly dataSet: NumberedDataSet;
  readonly naive: NaiveDataSet;
}

/** Half of the kinds of subject, in turns: what one data set leaves out another asks. */
const subjectsOf = (dataSet: number): readonly SubjectRef[] =>
  allSubjects(dataSet).filter((_, i) => i % 2 === dataSet % 2);

function allSubjects(dataSet: number): readonly SubjectRef[] {
  const plain = (type: string, id: string): SubjectRef => ({
    type: `${type}${dataSet}`,
    id,
    relation: '',
  });
  const [first, second] = objectsOf(dataSet, 'Group');
  const groups = [first ?? { type: '', id: '' }, second ?? { type: '', id: '' }] as const;
  return [
    ...objectsOf(dataSet, 'User')
      .slice(0, 2)
      .map((user) => ({ ...user, relation: '' })),
    plain('User', '*'),
    everybody,
    { ...groups[0], relation: '' },
    { ...groups[1], relation: 'r0' },
    ...objectsOf(dataSet, 'Doc')
      .slice(0, 1)
      .map((d) => ({ ...d, relation: '' })),
  ];
}

const truths = (
  { naive }: Comparison,
  subject: SubjectRef,
  action: string,
  object: { type: string; id: string },
): readonly boolean[] =>
  contexts.map((context) => naiveCheck({ ...naive, context }, subject, action, object));

/** Every check with a context, and one without: that answers only what is true or false whatever the context is. */
async function compareChecks(comparison: Comparison, subject: SubjectRef): Promise<void> {
  const { database, engine, dataSet } = comparison;
  const objects = ['Doc', 'Folder'].flatMap((kind) => objectsOf(dataSet.number, kind));
  const questions = objects.flatMap((resource) =>
    ['a0', 'a1'].map((action) => ({ subject, action, resource })),
  );
  const expected = questions.map((q) => truths(comparison, subject, q.action, q.resource));
  for (const [i, context] of contexts.entries()) {
    const answers = await engine.check(database, questions, { context });
    expect(describeAnswers(questions, answers)).toEqual(
      describeAnswers(
        questions,
        expected.map((truth) => truth[i] ?? false),
      ),
    );
  }
  await compareProbes(comparison, questions, expected);
  await compareSearches(comparison, questions, expected);
  await compareGiven(comparison, questions);
  const [first] = questions;
  if (!first) return;
  const told = await engine.explain(database, first, { context: contexts[0] });
  expect(groundOf(told)).toBe(told.allowed);
  expect(told.allowed).toBe(expected[0]?.[0]);
  const bare = await engine.check(database, [first]).catch((error: { code: string }) => error.code);
  if (bare === 'CONTEXT_MISSING') expect(usesContext(dataSet)).toBe(true);
  else
    expect(expected[0]).toEqual([(bare as readonly boolean[])[0], (bare as readonly boolean[])[0]]);
}

/** What a single statement decides is what a check answers, and true whatever the definitions leave to the walk. */
async function compareProbes(
  { database, engine, dataSet }: Comparison,
  questions: readonly Question[],
  expected: readonly (readonly boolean[])[],
): Promise<void> {
  const keeping = createEngine(dataSet.model, reaches);
  for (const [turn, context] of contexts.entries())
    for (const reach of ['near', 'object', 'graph', 'held'] as const) {
      const asked = reach === 'held' ? keeping : engine;
      const probes = await Promise.all(
        questions.map((question) => asked.probe(database, question, { context }, reach)),
      );
      for (const [i, question] of questions.entries())
        compareProbe(reach, question, probes[i]?.allowed, expected[i]?.[turn]);
    }
}

function compareProbe(
  reach: keyof typeof probed,
  question: Question,
  allowed: boolean | undefined,
  truth: boolean | undefined,
): void {
  if (allowed === undefined) return;
  const label = [reach, ...describeAnswers([question], [allowed])];
  expect([...label, truth]).toEqual([...label, allowed]);
  probed[reach][allowed ? 'allowed' : 'denied'] += 1;
}

/** From the side of the subject, and by the way down in the database, the answers are the same. */
async function compareSearches(
  { database, dataSet }: Comparison,
  questions: readonly Question[],
  expected: readonly (readonly boolean[])[],
): Promise<void> {
  const scope = { model: dataSet.model, database };
  // Some of the questions, in turns: each takes several statements.
  for (const [i, { subject, action, resource }] of questions.entries()) {
    if (i % 4 !== dataSet.number % 4) continue;
    const name = resolveName(dataSet.model, resource.type, action);
    const question = { subject, object: resource, name };
    if (isSelf(question)) continue;
    const turn = (i + dataSet.number) % contexts.length;
    const around = { context: contexts[turn] ?? {}, contextual: [] };
    const verdict = await searchFromSubject(scope, question, around, 1_000);
    const found = [verdict?.sure, verdict?.possible];
    const label = describeAnswers(questions.slice(i, i + 1), [])[0];
    const truth = expected[i]?.[turn];
    expect([label, ...found]).toEqual([label, truth, truth]);
    if (isExact(dataSet.model, name))
      expect([label, await isReachable(scope, question)]).toEqual([label, truth]);
    if (dataSet.number % 3 !== 2) continue;
    const far = await searchFromSubject({ ...scope, sizes: tiny }, question, around, 0);
    if (far) expect([label, far.sure, far.possible]).toEqual([label, truth, truth]);
  }
}

/** What is given with a question counts like what is stored, also where nothing is named and all is asked in the database. */
async function compareGiven(
  { database, dataSet, naive, engine }: Comparison,
  questions: readonly Question[],
): Promise<void> {
  const { model, number } = dataSet;
  const given = (dataSet.given ?? []).filter((tuple) => tupleProblem(model, tuple) === undefined);
  if (number % 3 !== 1 || given.length === 0 || given.length > limits.contextual) return;
  const turn = number % contexts.length;
  const context = contexts[turn] ?? {};
  const whole: NaiveDataSet = { ...naive, context, tuples: [...dataSet.tuples, ...given] };
  const asked = questions.filter((_, i) => i % 4 === number % 4);
  const options = { context, contextual: given };
  const answers = await engine.check(database, asked, options);
  for (const [i, { subject, action, resource }] of asked.entries()) {
    const truth = naiveCheck(whole, subject, action, resource);
    const label = describeAnswers(asked.slice(i, i + 1), [truth])[0];
    expect([label, answers[i]]).toEqual([label, truth]);
    const question = { subject, object: resource, name: resolveName(model, resource.type, action) };
    if (isSelf(question)) continue;
    const scope = { model, database, sizes: tiny };
    const far = await searchFromSubject(scope, question, options, 0);
    givenCompared[far ? 'answered' : 'refused'] += 1;
    if (far) expect([label, far.sure, far.possible]).toEqual([label, truth, truth]);
  }
}

/** What an explanation comes to when it is read from its leaves: an allowed line rests on an allowed part, unless it has none. */
const groundOf = ({ allowed, parts }: Reason): boolean =>
  allowed && (parts.length === 0 || parts.some(groundOf));

const describeAnswers = (
  questions: readonly {
    subject: SubjectRef;
    action: string;
    resource: { type: string; id: string };
  }[],
  answers: readonly boolean[],
) =>
  questions.map(
    (q, i) =>
      `${formatSubject(q.subject)} ${q.action} ${q.resource.type}:${q.resource.id} = ${answers[i]}`,
  );

const usesContext = ({ tuples }: RandomDataSet): boolean =>
  tuples.some((t) => t.condition === 'place');

/** The list of resources and the rows of the predicate are exactly those that a check allows. */
async function compareRows(comparison: Comparison, subject: SubjectRef): Promise<void> {
  const { database, engine, dataSet } = comparison;
  const type = `Doc${dataSet.number}`;
  const docs = objectsOf(dataSet.number, 'Doc');
  const mentioned = docs.filter((d) =>
    dataSet.tuples.some((t) =>
      [t.resource, t.subject].some((o) => o.type === type && o.id === d.id),
    ),
  );
  for (const action of ['a0', 'a1']) {
    const question = { subject, action, type };
    const label = `${formatSubject(subject)} ${action}`;
    const turn = dataSet.number % contexts.length;
    const context = contexts[turn] ?? {};
    const listed = await walk((cursor) =>
      engine.listResources(database, question, {
        limit: 2,
        context,
        ...(cursor !== undefined && { cursor }),
      }),
    );
    const known = [
      ...mentioned,
      ...docs.filter(
        (d) => d.type === subject.type && d.id === subject.id && !mentioned.includes(d),
      ),
    ];
    const expected = known
      .filter((d) => truths(comparison, subject, action, d)[turn])
      .map((d) => d.id);
    expect([label, ...listed]).toEqual([label, ...expected.sort()]);
    const certain = docs
      .filter(
        (d) => isRow(dataSet.number, d) && truths(comparison, subject, action, d).every(Boolean),
      )
      .map((d) => d.id);
    // What hangs on a context that is not given is not shown, even where it would be allowed whatever the context is.
    const rows = await compareForms(
      comparison,
      question,
      usesContext(dataSet) ? undefined : certain.sort(),
    );
    expect([label, ...rows.filter((id) => !certain.includes(id))]).toEqual([label]);
  }
}

/** The forms of a predicate that are really different, for few rows and for many; of many, one lookup in turn is the one that finds most. */
async function compareForms(
  comparison: Comparison,
  question: ResourceQuestion,
  expected: readonly string[] | undefined,
) {
  const { database, dataSet } = comparison;
  const forms = async (size: Size, large = false): Promise<Asked> => ({
    predicate: await rowPredicate(
      {
        model: dataSet.model,
        database,
        // Of some, what subjects reach is packed however little it is.
        ...(dataSet.number % 3 === 1 && { sizes: { ...limits, packedFrom: 0 } }),
      },
      question,
      memoryOf(size, large),
    ),
    dataSet: dataSet.number,
    database,
  });
  const counts = { seen: 1, total: 1_000_000 } as const;
  const smallest: Size = {
    ...{ ...counts, amount: 'few', storedFew: true, known: true, largest: undefined },
  };
  const few = await forms(smallest);
  const largest = await someLookup(comparison, question);
  const large: Size = { ...counts, amount: 'many', storedFew: true, known: true, largest };
  const many = await forms(large);
  const label = `${formatSubject(question.subject)} ${question.action}`;
  const rows = expected ?? (await rowsOf(many, 'row'));
  expect([label, 'row', ...(await rowsOf(many, 'row'))]).toEqual([label, 'row', ...rows]);
  for (const use of ['rows', 'count'] as const)
    expect([label, use, ...(await rowsOf(few, use))]).toEqual([label, use, ...rows]);
  const reached = await reachedOf(few);
  if (reached) {
    reachedCompared.found += reached.length;
    expect([label, 'reached', ...reached]).toEqual([label, 'reached', ...rows]);
  }
  for (const use of ['rows', 'sorted', 'count'] as const)
    expect([label, `many ${use}`, ...(await rowsOf(many, use))]).toEqual([
      label,
      `many ${use}`,
      ...rows,
    ]);
  // Of what is too much to be named the statement is large, and planned each time.
  if (dataSet.number % 2 === question.action.charCodeAt(1) % 2)
    await compareUnnamed(dataSet.number, () => forms(smallest, true), [label, ...rows]);
  if (dataSet.number % 3 === 1) {
    const ids = objectsOf(dataSet.number, 'Doc').map(({ id }) => id);
    const scope = { model: dataSet.model, database, sizes: tiny };
    const predicate = await rowPredicate(scope, { ...question, ids }, memoryOf(smallest));
    const these = await rowsOf({ predicate, dataSet: dataSet.number, database }, 'row');
    expect([label, 'of these', ...these]).toEqual([label, 'of these', ...rows]);
  }
  if (dataSet.number % 2 === question.subject.id.length % 2)
    await compareWays(
      (seen, total) => forms({ ...large, storedFew: false, seen, total }),
      1 + (dataSet.number % 3),
      [label, ...rows],
    );
  expect([label, (await numberOf(many)) ?? rows.length]).toEqual([label, rows.length]);
  return rows;
}

/** Everything asked in the statement of the rows, whatever the model is made of. */
async function compareUnnamed(
  dataSet: number,
  make: () => Promise<Asked>,
  [label, ...rows]: readonly string[],
): Promise<void> {
  // Some models are too intricate for one statement.
  const asked = await make().catch((error: { code: string }) => {
    expect(error.code).toBe('PERMISSION_SET_TOO_LARGE');
  });
  unnamedCompared[asked ? 'answered' : 'refused'] += 1;
  if (!asked) return;
  for (const use of dataSet % 4 < 2 ? (['row', 'count'] as const) : (['rows'] as const))
    expect([label, `unnamed ${use}`, ...(await rowsOf(asked, use))]).toEqual([
      label,
      `unnamed ${use}`,
      ...rows,
    ]);
}

async function someLookup(
  { database, dataSet }: Comparison,
  { subject, type, action }: ResourceQuestion,
): Promise<string | undefined> {
  const { model } = dataSet;
  const goal = resolveName(model, type, action);
  const principals = await principalsOf({ model, database }, subject, originsOf(model, goal), {
    context: {},
    contextual: [],
  });
  const lookups = lookupsTo(model, { subject, goal, principals });
  const one = lookups[dataSet.number % (lookups.length + 1)];
  return one && lookupKey(one);
}

async function walk(read: (cursor?: string) => Promise<Page<string>>): Promise<readonly string[]> {
  const items: string[] = [];
  let page = await read();
  items.push(...page.items);
  while (page.cursor !== undefined) {
    page = await read(page.cursor);
    items.push(...page.items);
  }
  return items;
}

/** Sets that are listed may act; those that may act are listed, unless everybody may without being named. */
async function compareSets(comparison: Comparison, resource: ObjectRef): Promise<void> {
  const { database, engine, dataSet } = comparison;
  const everyGroup = { type: `Group${dataSet.number}`, id: '*', relation: '' };
  const [isOpen] = truths(comparison, everyGroup, 'a0', resource);
  for (const relation of ['r0', 'r1']) {
    const type = `Group${dataSet.number}`;
    const question = { resource, action: 'a0', type, relation };
    if (!dataSet.model.member(type, relation)) continue;
    const listed = await walk((cursor) =>
      engine.listSubjects(database, question, {
        limit: 2,
        context: contexts[0],
        ...(cursor !== undefined && { cursor }),
      }),
    );
    for (const { id } of objectsOf(dataSet.number, 'Group')) {
      const [allowed] = truths(comparison, { type, id, relation }, 'a0', resource);
      const label = `${type}:${id}#${relation} a0 of ${listed.join()}`;
      if (listed.includes(`${type}:${id}#${relation}`))
        expect([label, allowed]).toEqual([label, true]);
      else if (!isOpen) expect([label, allowed]).toEqual([label, false]);
    }
  }
}

/** Whoever is listed may act; whoever may act is listed, or is one of everybody. */
async function compareSubjects(comparison: Comparison): Promise<void> {
  const { database, engine, dataSet } = comparison;
  const [resource] = objectsOf(dataSet.number, 'Doc');
  if (!resource) return;
  await compareSets(comparison, resource);
  for (const kind of ['User', 'Group']) {
    const question = { resource, action: 'a0', type: `${kind}${dataSet.number}` };
    const listed = await walk((cursor) =>
      engine.listSubjects(database, question, {
        limit: 2,
        context: contexts[0],
        ...(cursor !== undefined && { cursor }),
      }),
    );
    const everybody = listed.includes(`${question.type}:*`);
    for (const { type, id } of [
      ...objectsOf(dataSet.number, kind),
      { type: question.type, id: '*' },
    ]) {
      const [allowed] = truths(comparison, { type, id, relation: '' }, 'a0', resource);
      const isListed = listed.includes(`${type}:${id}`);
      const label = `${type}:${id} a0 of ${listed.join()}`;
      if (isListed) expect([label, allowed]).toEqual([label, true]);
      else if (!everybody) expect([label, allowed]).toEqual([label, false]);
    }
  }
}
