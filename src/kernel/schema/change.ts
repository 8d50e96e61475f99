/** One change of the set of schemas: all tables follow in one transaction, under one lock. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Caller, callerKey } from '../caller.ts';
import type { Database, Transaction } from '../database/database.ts';
import { codeOf } from '../database/failures.ts';
import { sql } from '../database/sql.ts';
import type { Events, NewEvent } from '../events/events.ts';
import { checksumOf, type Declaration, forgetDeclaration, loadDeclarations, saveDeclaration, treeOf } from './declaration.ts';
import { type ChangeStep, diffTable, dropTable } from './diff.ts';
import { schemaErrors } from './errors.ts';
import type { Field } from './field.ts';
import { emptyLayout, layoutOf } from './layout.ts';

/** Every declaration by lower-case name: names are unique whatever their case. */
export type World = ReadonlyMap<string, Declaration>;

export const worldOf = (declarations: readonly Declaration[]): World => new Map(declarations.map((d) => [d.name.toLowerCase(), d]));

export interface Intent {
  /** New and changed declarations, removed ones included. */
  readonly drafts: readonly Declaration[];
  /** Names whose declaration and table go. */
  readonly destroy: readonly string[];
}

/** What an intent means for one table. */
export interface TableWork {
  readonly declaration: Declaration;
  readonly steps: readonly ChangeStep[];
  /** It was asked for, and not only touched because a schema that it points to came or went. */
  readonly intended: boolean;
}

/** The work of an intent, also on schemas that refer to those it names. Pure. */
export function workOf(world: World, intent: Intent): readonly TableWork[] {
  const next = new Map(world);
  for (const name of intent.destroy) next.delete(name.toLowerCase());
  for (const draft of intent.drafts) next.set(draft.name.toLowerCase(), draft);
  const exists = (name: string): boolean => {
    const found = next.get(name.toLowerCase());
    return found !== undefined && found.name === name && !found.removed;
  };
  const intended = new Set(intent.drafts);
  return [...next.values()].flatMap((declaration) => {
    const work = tableWork(declaration, world.get(declaration.name.toLowerCase()), exists);
    return work.steps.length > 0 || intended.has(declaration) ? [{ ...work, intended: intended.has(declaration) }] : [];
  });
}

const noFields: ReadonlyMap<string, Field> = new Map();

function tableWork(declaration: Declaration, before: Declaration | undefined, exists: (name: string) => boolean) {
  const tree = treeOf(declaration);
  const wanted = declaration.removed ? { ...tree, fields: noFields } : tree;
  const layout = layoutOf({
    name: declaration.name,
    tree: wanted,
    exists,
    keep: before?.layout ?? emptyLayout,
    indexes: (declaration.removed ? [] : (declaration.modelOptions.indexes ?? [])).map(({ fields, options }) => ({
      fields,
      unique: options?.unique === true,
    })),
  });
  const steps = diffTable({ name: declaration.name, from: before?.layout, to: layout, fields: wanted.fields });
  return { declaration: { ...declaration, layout }, steps };
}

const dropSteps = (world: World, name: string): readonly ChangeStep[] =>
  dropTable(name, world.get(name.toLowerCase())?.layout ?? emptyLayout);

/** Steps of all tables in the order in which they can run. */
export function orderedSteps(world: World, work: readonly TableWork[], destroy: readonly string[]): readonly ChangeStep[] {
  const steps = [...work.flatMap((table) => table.steps), ...destroy.flatMap((name) => dropSteps(world, name))];
  return steps.sort((a, b) => a.phase - b.phase);
}

export interface ChangeDependencies {
  readonly database: Database;
  readonly events: Events;
}

/** Milliseconds that a step waits for a table in use before the whole change is tried again. */
const LOCK_TIMEOUT_MS = 2_000;
const ATTEMPTS = 5;

/**
 * Runs a change. `decide` sees what is stored now, under the lock, so that two nodes that do the
 * same at once do it one after the other. Answers the names that changed.
 */
export async function changeSchemas(
  { database, events }: ChangeDependencies,
  caller: Caller,
  decide: (world: World) => Intent,
): Promise<readonly string[]> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await database.transaction((transaction) => changeOnce(transaction, { events, caller, decide }));
    } catch (error) {
      if (codeOf(error) !== '55P03') throw error;
      if (attempt === ATTEMPTS) throw schemaErrors.SCHEMA_BUSY({ retryAfter: 5, cause: error });
      await sleep(100 * attempt);
    }
  }
}

interface ChangeRun {
  readonly events: Events;
  readonly caller: Caller;
  readonly decide: (world: World) => Intent;
}

async function changeOnce(transaction: Transaction, { events, caller, decide }: ChangeRun): Promise<readonly string[]> {
  await transaction.query({ text: "select pg_advisory_xact_lock(hashtextextended('penstock.schemas', 0))" });
  const world = worldOf(await loadDeclarations(transaction));
  const intent = decide(world);
  if (intent.drafts.length === 0 && intent.destroy.length === 0) return [];
  // A large table may take longer than a request is allowed to; waiting for its lock may not.
  await transaction.query({ text: `set local lock_timeout = ${LOCK_TIMEOUT_MS}` });
  await transaction.query({ text: 'set local statement_timeout = 0' });
  const work = workOf(world, intent);
  await runSteps(transaction, orderedSteps(world, work, intent.destroy));
  for (const name of intent.destroy) await forgetDeclaration(transaction, name);
  for (const table of work) await saveDeclaration(transaction, table.declaration);
  await record(transaction, { caller, world, work, destroy: intent.destroy });
  for (const event of eventsOf(world, work, intent.destroy)) await events.emit(transaction, caller, event);
  return [...work.map(({ declaration }) => declaration.name), ...intent.destroy];
}

async function runSteps(transaction: Transaction, steps: readonly ChangeStep[]): Promise<void> {
  for (const { obstacle, statement } of steps) {
    if (obstacle) {
      const { rows } = await transaction.query({ text: obstacle.query });
      if (rows.length > 0) throw obstacle.error();
    }
    await transaction.query({ text: statement });
  }
}

interface ChangeRecord {
  readonly caller: Caller;
  readonly world: World;
  readonly work: readonly TableWork[];
  readonly destroy: readonly string[];
}

/** Writes down what was done to each table. */
async function record(transaction: Transaction, { caller, world, work, destroy }: ChangeRecord): Promise<void> {
  const rows = [
    ...work.map(({ declaration, steps }) => ({
      name: declaration.name,
      to: declaration.version,
      statements: steps.map((s) => s.statement),
    })),
    ...destroy.map((name) => ({ name, to: null, statements: dropSteps(world, name).map((s) => s.statement) })),
  ];
  for (const { name, to, statements } of rows) {
    const from = world.get(name.toLowerCase())?.version ?? null;
    await transaction.query(sql`
      insert into penstock.schema_migrations (schema, from_version, to_version, statements, checksum, actor)
      values (${name}, ${from}, ${to}, ${JSON.stringify(statements)}, ${checksumOf(statements)}, ${callerKey(caller)})`);
  }
}

function eventsOf(world: World, work: readonly TableWork[], destroy: readonly string[]): NewEvent[] {
  const changed = work
    .filter(({ intended }) => intended)
    .map(({ declaration: { name, id, removed } }): NewEvent => {
      const before = world.get(name.toLowerCase());
      if (removed) return { topic: 'database:delete:schema', schema: name, ids: [id], operation: 'delete' };
      const isNew = !before || before.removed;
      return { topic: `database:${isNew ? 'create' : 'update'}:schema`, schema: name, ids: [id], operation: isNew ? 'insert' : 'update' };
    });
  const gone = destroy.map((name): NewEvent => ({ topic: 'database:delete:schema', schema: name, operation: 'delete' }));
  return [...changed, ...gone];
}
