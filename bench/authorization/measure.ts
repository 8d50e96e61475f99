/** The measurements at one size, inside the process, on an embedded server of their own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Database, Statement } from '../../src/kernel/database/database.ts';
import { migrate } from '../../src/kernel/database/migrate.ts';
import { openDatabase } from '../../src/kernel/database/open-database.ts';
import { statementName } from '../../src/kernel/database/sql.ts';
import { migrations as eventTables } from '../../src/kernel/events/migrations.ts';
import { newId } from '../../src/kernel/ids.ts';
import type { RowPredicate } from '../../src/kernel/permissions.ts';
import { createEngine } from '../../src/modules/authorization/engine/create-engine.ts';
import type { Engine, Question } from '../../src/modules/authorization/engine/engine.ts';
import { createGrantCache } from '../../src/modules/authorization/engine/grant-cache/grant-cache.ts';
import { migrations } from '../../src/modules/authorization/migrations.ts';
import type { SubjectRef } from '../../src/modules/authorization/model/grammar.ts';
import { writeTuples } from '../../src/modules/authorization/tuple-writes.ts';
import { silentLog } from '../../test/support/log.ts';
import { percentile, seededRandom } from '../statistics.ts';
import { benchModel, docTable, fill, idOf, people, type Size, sizeOf } from './dataset.ts';

/** Milliseconds. */
export interface Times {
  readonly p50: number;
  readonly p99: number;
}

/** What one reader's page costs. */
export interface PageTimes {
  /** How many records the reader sees. */
  readonly sees: number;
  readonly page: Times;
  /** The page and the exact count of all, as a list route answers. */
  readonly withCount: Times;
}

export interface Measured {
  readonly size: Size;
  readonly checks: Readonly<Record<'positive' | 'negative' | 'mixed', Times>>;
  readonly pages: Readonly<Record<'everybody' | keyof typeof people, PageTimes>>;
  readonly writes: Readonly<Record<'tuple' | 'bare', Times>>;
  readonly serverVersion: string;
}

const CHECKS = 3_000;
const PAGES = 100;
const COUNTS = 10;
const WRITES = 1_000;
const PAGE = 20;

/** Fills a new server and measures; everything is removed at the end. */
export async function measureAt(tuples: number, print: (line: string) => void): Promise<Measured> {
  const dataDir = await mkdtemp(join(tmpdir(), 'penstock-authorization-'));
  const settings = {
    dataDir,
    databaseUrl: undefined,
    databasePreparedStatements: true,
    databasePipelining: true,
  };
  const database = await openDatabase({ settings, log: silentLog });
  try {
    await migrate(database, [
      { owner: 'events', migrations: eventTables },
      { owner: 'authorization', migrations },
    ]);
    const size = sizeOf(tuples);
    print(`${tuples} tuples: filling`);
    await fill(database, size);
    const engine = createEngine(benchModel);
    print(`${tuples} tuples: measuring`);
    return {
      size,
      checks: await measureChecks(database, engine, size),
      pages: await measurePages(database),
      writes: await measureWrites(database, size),
      serverVersion: database.info().version,
    };
  } finally {
    await database.close();
    await rm(dataDir, { recursive: true, force: true });
  }
}

/** Times `work`, after a tenth of it as a warm-up. */
async function timesOf(count: number, work: (i: number) => Promise<unknown>): Promise<Times> {
  for (let i = 0; i < Math.max(10, count / 10); i += 1) await work(i);
  const taken = new Float64Array(count);
  for (let i = 0; i < count; i += 1) {
    const before = performance.now();
    await work(i);
    taken[i] = performance.now() - before;
  }
  taken.sort();
  return { p50: percentile(taken, 0.5), p99: percentile(taken, 0.99) };
}

const actions = ['read', 'edit', 'delete'];
const user = (n: number): SubjectRef => ({ type: 'User', id: idOf('User', n), relation: '' });

async function measureChecks(
  database: Database,
  engine: Engine,
  { users, records }: Size,
): Promise<Measured['checks']> {
  const random = seededRandom(7);
  const below = (count: number): number => Math.floor(random() * count);
  const questions = Array.from(
    { length: 4 * CHECKS },
    (_, i): Question => ({
      // Half of the questions are of somebody who reads most.
      subject: user(i % 2 === 0 ? people.reader : below(users)),
      action: actions[i % actions.length] ?? 'read',
      resource: { type: 'Doc', id: idOf('Doc', below(records)) },
    }),
  );
  const sorted: Record<'positive' | 'negative', Question[]> = { positive: [], negative: [] };
  for (const question of questions) {
    const [allowed] = await engine.check(database, [question]);
    sorted[allowed ? 'positive' : 'negative'].push(question);
  }
  const measure = (asked: readonly Question[]): Promise<Times> =>
    timesOf(CHECKS, (i) => engine.check(database, [asked[i % asked.length] as Question]));
  return {
    positive: await measure(sorted.positive),
    negative: await measure(sorted.negative),
    mixed: await measure(questions),
  };
}

/** The list statement of the record engine (kernel/records/reads.ts), with or without its count. */
function listStatement(predicate: RowPredicate | undefined, counted: boolean): Statement {
  const values: unknown[] = [];
  const next = (value: unknown): string => `$${values.push(value)}`;
  const page = `select t0.* from ${pageRows(predicate, next)} order by t0."_id" limit ${PAGE}`;
  const documents = `(select string_agg(row_to_json(x)::text, ',') from (${page}) x)`;
  const count = counted ? `, ${countOf(predicate, next)} as count` : '';
  const current = predicate?.guard ? `, ${predicate.guard(next)} as current` : '';
  const text = `select ${documents} as documents${count}${current}`;
  return { text, values, name: statementName(text) };
}

function pageRows(predicate: RowPredicate | undefined, next: (value: unknown) => string): string {
  if (!predicate) return `${docTable} t0`;
  const first = predicate.first?.way(PAGE, 'ids');
  if (first) return `(${first.compile({ rows: docTable, count: String(PAGE) }, next)}) t0`;
  return `${docTable} t0 where ${predicate.compile('t0."_id"', next, 'rows')}`;
}

function countOf(predicate: RowPredicate | undefined, next: (value: unknown) => string): string {
  if (predicate?.number) return predicate.number(docTable, next);
  return `(select count(*) from ${docTable} t0 where ${predicate ? predicate.compile('t0."_id"', next, 'count') : 'true'})`;
}

/** Pages as the record engine reads them: with what the node remembers, and the question whether that still holds. */
async function measurePages(database: Database): Promise<Measured['pages']> {
  const reach = createGrantCache(database);
  const engine = createEngine(benchModel, reach);
  const list = async (person: number | undefined, counted: boolean) => {
    if (person === undefined)
      return database.query<{ count?: number }>(listStatement(undefined, counted));
    const question = { action: 'read', type: 'Doc', subject: user(person) };
    const predicate = await engine.predicate(database, question, reach.catchUp);
    const [page, confirmed] = await Promise.all([
      database.query<{ count?: number; current?: boolean }>(listStatement(predicate, counted)),
      predicate.guard ? true : predicate.confirm?.(),
    ]);
    if (!confirmed || page.rows[0]?.current === false)
      throw new Error('Nothing changes while pages are measured');
    return page;
  };
  const measure = async (person?: number): Promise<PageTimes> => {
    const page = await timesOf(PAGES, () => list(person, false));
    const withCount = await timesOf(COUNTS, () => list(person, true));
    return { page, withCount, sees: Number((await list(person, true)).rows[0]?.count ?? 0) };
  };
  return {
    everybody: await measure(),
    newcomer: await measure(people.newcomer),
    reader: await measure(people.reader),
    head: await measure(people.head),
  };
}

/** One tuple as the module writes it, with its event, and a bare row into a table with the same columns and indexes, one kind after the other. */
async function measureWrites(
  database: Database,
  { users, records }: Size,
): Promise<Measured['writes']> {
  await database.transaction(async (transaction) => {
    await transaction.query({ text: 'set local statement_timeout = 0' });
    await transaction.query({
      text: 'create table penstock.bare (like penstock.tuples including all)',
    });
    await transaction.query({
      text: `insert into penstock.bare (${tupleColumns}) select ${tupleColumns} from penstock.tuples`,
    });
  });
  const random = seededRandom(11);
  const below = (count: number): number => Math.floor(random() * count);
  const bareText = `insert into penstock.bare (id, subject_type, subject_id, relation, resource_type, resource_id) values ($1, 'User', $2, 'reader', 'Doc', $3)`;
  const ids = () => ({
    subject: user(below(users)),
    resource: { type: 'Doc', id: idOf('Doc', below(records)) },
  });
  const bare = await timesOf(WRITES, () => {
    const { subject, resource } = ids();
    return database.query({
      text: bareText,
      values: [newId(), subject.id, resource.id],
      name: statementName(bareText),
    });
  });
  const tables = new Map([['Doc', docTable]]);
  const tuple = await timesOf(WRITES, () =>
    writeTuples(database, [{ id: newId(), ...ids(), relation: 'reader' }], 'system:bench', tables),
  );
  return { bare, tuple };
}

const tupleColumns =
  'id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id, condition, attributes, expires_at, created_at, updated_at';
