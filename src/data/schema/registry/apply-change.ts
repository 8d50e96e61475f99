/** One change of the set of schemas: all tables follow in one transaction, under one lock. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller } from '../../../kernel/caller.ts';
import type { Database, Transaction } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import type { Events, NewEvent } from '../../../kernel/events/events.ts';
import { createTimeSlices } from '../../../kernel/time-slices.ts';
import type { CompiledSchema } from '../compile/compiled.ts';
import {
  compileDeclaration,
  type Declaration,
  forgetDeclaration,
  loadDeclarations,
  saveDeclaration,
} from '../compile/declaration.ts';
import { schemaErrors } from '../errors.ts';
import { isLarge } from '../plan/index-steps.ts';
import type { ChangeStep } from '../plan/schema-plan.ts';
import {
  type ChangePlan,
  orderedSteps,
  type SchemaSnapshot,
  schemaSnapshotOf,
  type TableWork,
  workOf,
} from '../plan/table-work.ts';
import { awaitIndex, finishIndexBuilds } from './index-builds.ts';
import { recordMigrations } from './migration-log.ts';
import type { SchemaGuard } from './registry.ts';

export interface ChangeDependencies {
  readonly database: Database;
  readonly events: Events;
  readonly guards: readonly SchemaGuard[];
  /** A declaration as it can be worked with, also where it is damaged. */
  readonly readable: (declaration: Declaration) => Declaration;
}

/** What became of a change. */
export interface ChangeResult {
  /** Names of schemas that changed. */
  readonly changed: readonly string[];
  /** Some index is still to be made. */
  readonly waits: boolean;
}

interface ChangeRun extends Omit<ChangeDependencies, 'database'> {
  readonly caller: Caller;
  /** Indexes are made at once, however large the table is: a module counts on its own. */
  readonly atOnce: boolean;
  readonly decide: Decide;
}

/** What is to become of the schemas as they are stored. */
export type Decide = (snapshot: SchemaSnapshot) => ChangePlan | Promise<ChangePlan>;

/** Milliseconds that a step waits for a table in use before the whole change is tried again. */
const LOCK_TIMEOUT_MS = 2_000;
const ATTEMPTS = 5;

/**
 * Runs a change. `decide` sees what is stored now, under the lock, so that two nodes that do the
 * same at once do it one after the other.
 */
export async function changeSchemas(
  { database, ...dependencies }: ChangeDependencies,
  caller: Caller,
  { decide, atOnce = false }: { readonly decide: Decide; readonly atOnce?: boolean },
): Promise<ChangeResult> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await database.transaction((transaction) =>
        changeOnce(transaction, { ...dependencies, caller, decide, atOnce }),
      );
    } catch (error) {
      if (codeOf(error) !== '55P03') throw error;
      if (attempt === ATTEMPTS) throw schemaErrors.SCHEMA_BUSY({ retryAfter: 5, cause: error });
      await sleep(100 * attempt);
    }
  }
}

async function changeOnce(
  transaction: Transaction,
  { events, guards, readable, caller, decide, atOnce }: ChangeRun,
): Promise<ChangeResult> {
  await transaction.query({
    text: "select pg_advisory_xact_lock(hashtextextended('penstock.schemas', 0))",
  });
  const startedAt = new Date();
  const snapshot = schemaSnapshotOf((await loadDeclarations(transaction)).map(readable));
  const changePlan = await decide(snapshot);
  if (changePlan.drafts.length === 0 && changePlan.destroy.length === 0)
    return { changed: [], waits: false };
  // A large table may take longer than a request is allowed to; waiting for its lock may not.
  await transaction.query({ text: `set local lock_timeout = ${LOCK_TIMEOUT_MS}` });
  await transaction.query({ text: 'set local statement_timeout = 0' });
  const work = await workOf(snapshot, changePlan);
  const late = await runSteps(
    transaction,
    orderedSteps(snapshot, work, changePlan.destroy),
    (schema) => !atOnce && snapshot.has(schema.toLowerCase()),
  );
  for (const name of changePlan.destroy) await forgetDeclaration(transaction, name);
  for (const table of work) await saveDeclaration(transaction, table.declaration);
  const changed = await changedSchemas(snapshot, work, changePlan.destroy);
  const [renames, removed] = [renamesOf(changePlan), removedIn(work)];
  for (const guard of guards) await guard(transaction, changed, renames, removed);
  await finishIndexBuilds(transaction, work, changePlan.destroy);
  await recordMigrations(transaction, {
    caller,
    snapshot,
    work,
    destroy: changePlan.destroy,
    late,
    startedAt,
  });
  for (const event of eventsOf(snapshot, work, changePlan.destroy))
    await events.emit(transaction, caller, event);
  return {
    changed: [...work.map(({ declaration }) => declaration.name), ...changePlan.destroy],
    waits: late.size > 0,
  };
}

const renamesOf = ({ drafts }: ChangePlan) =>
  new Map(
    drafts
      .filter(({ renames }) => renames.length > 0)
      .map(({ declaration, renames }) => [declaration.name, renames] as const),
  );

/** Declarations that are taken away alone: their tables stay. */
const removedIn = (work: readonly TableWork[]): ReadonlySet<string> =>
  new Set(work.flatMap(({ declaration }) => (declaration.removed ? [declaration.name] : [])));

/** What changes, as it will be; what goes. Declarations that are taken away alone are neither. */
async function changedSchemas(
  snapshot: SchemaSnapshot,
  work: readonly TableWork[],
  destroy: readonly string[],
): Promise<ReadonlyMap<string, CompiledSchema | undefined>> {
  const there = new Set(work.map(({ declaration }) => declaration.name));
  const exists = (name: string): boolean =>
    !destroy.includes(name) && (there.has(name) || snapshot.has(name.toLowerCase()));
  const changed = new Map<string, CompiledSchema | undefined>();
  const pause = createTimeSlices();
  for (const { declaration } of work) {
    if (declaration.removed) continue;
    await pause();
    changed.set(declaration.name, compileDeclaration(declaration, exists));
  }
  for (const name of destroy) changed.set(name, undefined);
  return changed;
}

/** Runs steps in order; answers those that are left for later. `wasThere`: tables that may hold records already. */
async function runSteps(
  transaction: Transaction,
  steps: readonly ChangeStep[],
  wasThere: (schema: string) => boolean,
): Promise<ReadonlySet<ChangeStep>> {
  const late = new Set<ChangeStep>();
  for (const step of steps) {
    await requireNoObstacle(transaction, step);
    if (step.index && wasThere(step.schema) && (await isLarge(transaction, step.schema))) {
      await awaitIndex(transaction, step.schema, step.index.name);
      late.add(step);
    } else await runStep(transaction, step);
  }
  return late;
}

async function requireNoObstacle(
  transaction: Transaction,
  { obstacle }: ChangeStep,
): Promise<void> {
  if (!obstacle) return;
  const { rows } = await transaction.query({ text: obstacle.query });
  if (rows.length > 0) throw obstacle.error(rows);
}

/** Classes of refusals that stored records cause: a value that does not fit, a constraint, a size. */
const dataRefusal = /^(?:22|23|54)/;
/** Something else in the database is made from the table: a view that would lose a column, or see another type. */
const dependencyRefusal: ReadonlySet<string> = new Set(['2BP01', '0A000']);

/** A table or column that is there, or is not, against what is noted of it. */
const otherTable: ReadonlySet<string> = new Set(['42701', '42703', '42P01', '42P07']);

async function runStep(
  transaction: Transaction,
  { statement, summary, schema }: ChangeStep,
): Promise<void> {
  try {
    await transaction.query({ text: statement });
  } catch (error) {
    const code = codeOf(error) ?? '';
    if (dependencyRefusal.has(code))
      throw schemaErrors.SCHEMA_REFERENCED({
        message: `${schema}: a view stands in the way: ${summary}`,
        cause: error,
      });
    if (otherTable.has(code))
      throw schemaErrors.SCHEMA_DATA_CONFLICT({
        message: `${schema}: its table is not as the platform left it: ${summary}`,
        cause: error,
      });
    if (!dataRefusal.test(code)) throw error;
    throw schemaErrors.SCHEMA_DATA_CONFLICT({
      message: `${schema}: the stored records do not allow this: ${summary}`,
      cause: error,
    });
  }
}

/** Events about schemas have no `operation`: that is for records, and who follows the records of a schema would take it for one. */
function eventsOf(
  snapshot: SchemaSnapshot,
  work: readonly TableWork[],
  destroy: readonly string[],
): NewEvent[] {
  const changed = work
    .filter(({ intended }) => intended)
    .map(({ declaration: { name, id, removed } }): NewEvent => {
      const before = snapshot.get(name.toLowerCase());
      if (removed) return { topic: 'database:delete:schema', schema: name, ids: [id] };
      const isNew = !before || before.removed;
      return { topic: `database:${isNew ? 'create' : 'update'}:schema`, schema: name, ids: [id] };
    });
  const gone = destroy.map((name): NewEvent => ({ topic: 'database:delete:schema', schema: name }));
  return [...changed, ...gone];
}
