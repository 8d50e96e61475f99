/**
 * Schedules of functions. A row for each says when it is due next; whichever node comes first stores the run and moves
 * the row on, in one transaction, so that a time is run once over all nodes and survives restarts.
 */
import { CronExpressionParser } from 'cron-parser';
import type { Database, Queryable, Transaction } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';
import type { Problem } from '../../../kernel/errors.ts';
import { createWakeup } from '../../../kernel/events/relay.ts';
import { offAccount } from '../../../kernel/request-account/request-account.ts';
import type { FunctionDefinition, StoredFunction } from '../definition/definition.ts';
import { loadFunctions } from '../queries/functions.ts';
import { queueName, type RunData, type TriggerParts } from './parts.ts';

/** Milliseconds after which a time that nobody ran counts as missed. */
const MISSED_MS = 60_000;
/** Milliseconds between two looks at most. */
const LOOK_EVERY_MS = 30_000;
const RECOVER_MS = 1_000;
/** By so many milliseconds clocks are set back in small steps, which schedules need not notice. */
const SET_BACK_MS = 1_000;

type Scheduled = Pick<FunctionDefinition, 'inputs'>;

const patternOf = ({ inputs }: Scheduled): string => inputs.cronPattern ?? inputs.event ?? '';
const zoneOf = ({ inputs }: Scheduled): string => inputs.timezone ?? 'UTC';
export const isSchedule = ({ functionType, enabled }: StoredFunction): boolean =>
  functionType === 'cron' && enabled;

/** The next times of a schedule. Throws for one that makes no sense. */
export function nextRuns(definition: Scheduled, from: Date, count: number): readonly Date[] {
  const tz = zoneOf(definition);
  const expression = CronExpressionParser.parse(patternOf(definition), { currentDate: from, tz });
  return Array.from({ length: count }, () => expression.next().toDate());
}

/** The next five times, of a schedule that is on. */
export function nextRunsOf(one: StoredFunction): { readonly nextRuns?: readonly Date[] } {
  const found = isSchedule(one) ? safely(() => nextRuns(one, new Date(), 5)) : undefined;
  return found ? { nextRuns: found } : {};
}

/** What is wrong with the schedule of a definition. */
export function scheduleProblems({ functionType, inputs }: FunctionDefinition): readonly Problem[] {
  if (functionType !== 'cron') return [];
  const isEvent = inputs.cronPattern === undefined && inputs.event !== undefined;
  const path = isEvent ? 'inputs.event' : 'inputs.cronPattern';
  const problem = (place: string, message: string): Problem[] => [
    { path: place, rule: 'schedule', message },
  ];
  const pattern = patternOf({ inputs });
  const fields = pattern.trim().split(/\s+/).filter(Boolean);
  if (fields.length === 0)
    return problem(path, 'is needed: 5 or 6 fields, or a name such as @hourly');
  const isName = fields.length === 1 && /^@[a-z]+$/.test(fields[0] ?? '');
  if (!isName && fields.length !== 5 && fields.length !== 6)
    return problem(path, `has ${fields.length} fields: 5 or 6, or a name such as @hourly`);
  try {
    new Intl.DateTimeFormat('en', { timeZone: zoneOf({ inputs }) });
  } catch {
    return problem('inputs.timezone', 'is no time zone: write a name like Europe/Athens');
  }
  try {
    nextRuns({ inputs }, new Date(), 1);
    return [];
  } catch (error) {
    const reason = error instanceof Error ? `: ${error.message}` : '';
    return problem(path, `is no schedule such as "30 9 * * 1-5"${reason}`);
  }
}

export interface Schedules {
  /** Takes in what schedules there are now. */
  reconcile(): Promise<void>;
  /** Functions have changed: they are taken in soon, and until that succeeds. */
  changed(): void;
  /** Stores the runs that are due; answers how many. */
  tick(): Promise<number>;
  start(): void;
  stop(): Promise<void>;
}

interface ScheduleParts
  extends Pick<TriggerParts, 'database' | 'store' | 'queue' | 'wake' | 'log' | 'config'> {
  readonly now?: () => Date;
  /** The functions as they are stored. */
  readonly load?: (database: Queryable) => Promise<readonly StoredFunction[]>;
}

export function createSchedules(parts: ScheduleParts): Schedules {
  const { database, log, now = () => new Date(), load = loadFunctions } = parts;
  const bell = createWakeup();
  let stopped = false;
  let areTakenIn = true;
  let running: Promise<void> | undefined;
  const reconcile = async (): Promise<void> => {
    areTakenIn = true;
    try {
      await reconcileRows(database, load, now());
    } catch (error) {
      areTakenIn = false;
      throw error;
    }
  };
  let latest = now();
  const tick = async (): Promise<number> => {
    const at = now();
    // A clock that was ahead has moved schedules on to times far away.
    const isSetBack = latest.getTime() - at.getTime() > SET_BACK_MS;
    latest = at;
    if (isSetBack) await reconcile();
    const count = await database.transaction((transaction) => storeDue(parts, transaction, at));
    if (count > 0) parts.wake();
    return count;
  };
  const turn = async (): Promise<number> => {
    if (!areTakenIn) await reconcile();
    await tick();
    return untilNext(database, now());
  };
  const recover = (error: unknown): number => {
    if (!stopped) log.warn({ err: error }, 'Schedules could not be looked at; trying again');
    return RECOVER_MS;
  };
  const loop = async (): Promise<void> => {
    while (!stopped) {
      const waitMs = await turn().catch(recover);
      if (!stopped) await bell.wait(waitMs);
    }
  };
  return {
    reconcile,
    changed() {
      areTakenIn = false;
      bell.ring();
    },
    tick,
    start() {
      running ??= offAccount(() => loop());
    },
    async stop() {
      stopped = true;
      bell.ring();
      await running;
    },
  };
}

/**
 * A row for each schedule; one that was changed begins anew, and so does one that would pass over its next time. What is stored counts, and not what this node knows of it:
 * whoever heard of a change late would take away the rows of later ones.
 */
async function reconcileRows(
  database: Database,
  load: (database: Queryable) => Promise<readonly StoredFunction[]>,
  now: Date,
): Promise<void> {
  await database.transaction(async (transaction) => {
    await transaction.query(
      sql`select pg_advisory_xact_lock(hashtextextended('penstock.function_schedules', 0))`,
    );
    const rows = rowsOf((await load(transaction)).filter(isSchedule), now);
    await transaction.query(sql`
      insert into penstock.function_schedules (function_id, key, next_at)
      select id, key, next_at from json_to_recordset(${JSON.stringify(rows)}::json) as x(id uuid, key text, next_at timestamptz)
      order by id
      on conflict (function_id) do update set key = excluded.key, next_at = excluded.next_at
      where function_schedules.key <> excluded.key or function_schedules.next_at > excluded.next_at`);
    await transaction.query(sql`
      delete from penstock.function_schedules where not function_id = any(${rows.map(({ id }) => id)}::uuid[])`);
  });
}

const rowsOf = (functions: readonly StoredFunction[], now: Date) =>
  functions.flatMap((one) => {
    const [next] = safely(() => nextRuns(one, now, 1)) ?? [];
    const key = `${patternOf(one)} ${zoneOf(one)}`;
    return next ? [{ id: one._id, key, next_at: next.toISOString() }] : [];
  });

function safely<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

async function storeDue(
  { store, queue, config }: ScheduleParts,
  transaction: Transaction,
  now: Date,
): Promise<number> {
  const { rows } = await transaction.query<{ id: string; nextAt: Date }>(sql`
    select function_id::text as id, next_at as "nextAt" from penstock.function_schedules
    where next_at <= ${now} order by next_at limit 100 for update skip locked`);
  let count = 0;
  for (const { id, nextAt } of rows) {
    const definition = store.byId(id);
    if (!definition || !isSchedule(definition)) continue;
    const isMissed = now.getTime() - nextAt.getTime() > MISSED_MS;
    const { catchUp, jitterMs } = config().cron;
    const missed = definition.inputs.missed ?? (catchUp ? 'once' : 'none');
    const runs = !isMissed || missed === 'once';
    if (runs && (await mayOverlap(transaction, definition)))
      count += await queue.add(transaction, [itemOf(definition, nextAt, laterBy(now, jitterMs))]);
    // What was missed is run once at most: the next time is one to come.
    const [next] = nextRuns(definition, isMissed ? now : nextAt, 1);
    await transaction.query(sql`
      update penstock.function_schedules set next_at = ${next} where function_id = ${id}::uuid`);
  }
  return count;
}

const laterBy = (now: Date, jitterMs: number): Date =>
  new Date(now.getTime() + Math.floor(Math.random() * (jitterMs + 1)));

function itemOf(definition: StoredFunction, at: Date, dueAt: Date) {
  const scheduledAt = at.toISOString();
  const data: RunData = { kind: 'cron', scheduledAt, pattern: patternOf(definition) };
  const orderKey = definition.inputs.overlap === 'parallel' ? undefined : 'cron';
  return { target: definition._id, dedupe: `cron:${scheduledAt}`, orderKey, data, dueAt };
}

/** `skip`, unless the definition says otherwise: no run while an earlier one has not ended. */
async function mayOverlap(
  transaction: Transaction,
  { _id, inputs }: StoredFunction,
): Promise<boolean> {
  if (inputs.overlap === 'queue' || inputs.overlap === 'parallel') return true;
  const { rows } = await transaction.query(sql`
    select from penstock.queue_items where queue = ${queueName} and target = ${_id} and state = 'waiting'
      and order_key = 'cron' limit 1`);
  return rows.length === 0;
}

async function untilNext(database: Database, now: Date): Promise<number> {
  const { rows } = await database.query<{ next: Date | null }>(
    sql`select min(next_at) as next from penstock.function_schedules`,
  );
  const next = rows[0]?.next;
  if (!next) return LOOK_EVERY_MS;
  return Math.min(Math.max(next.getTime() - now.getTime(), 20), LOOK_EVERY_MS);
}
