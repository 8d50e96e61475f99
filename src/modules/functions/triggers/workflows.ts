/**
 * Workflows: functions that go on where they were. A step that has ended is not done again, whatever died meanwhile; a
 * workflow that sleeps or waits for an event holds nothing but its row.
 */
import type { Database } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { QueueItem } from '../../../kernel/queue/durable-queue.ts';
import { type HostCall, RunSuspended } from '../services/host-calls.ts';

/** Why a run of a workflow ends before the workflow does. */
export interface SuspendedUntil {
  /** Milliseconds since the epoch. */
  readonly until: number;
}

const DAY_MS = 86_400_000;
const LONGEST_MS = 400 * DAY_MS;
/** Bytes of what one step leaves. */
const MOST_VALUE = 262_144;

interface StepRow {
  readonly done: boolean;
  readonly value: unknown;
  readonly until: Date | null;
}

/** The calls `ctx.step`, `ctx.sleep` and `ctx.waitForEvent` of one run. */
export function workflowCalls(
  database: Database,
  { id }: Pick<QueueItem, 'id'>,
): ReadonlyMap<string, HostCall> {
  /** Sleeps and waits without a name have their number in the code's order. */
  let unnamed = 0;
  const nameOf = (kind: string, given: unknown): string => {
    unnamed += 1;
    return `${kind}:${given === undefined ? unnamed : String(given)}`;
  };
  const suspend = (until: Date): never => {
    throw new RunSuspended({ until: until.getTime() } satisfies SuspendedUntil);
  };

  return new Map<string, HostCall>([
    [
      'step.begin',
      async (_scope, given) => {
        const row = await stepOf(database, id, `step:${stepName(given.name)}`);
        return row?.done ? { done: true, value: row.value } : { done: false };
      },
    ],
    [
      'step.end',
      async (_scope, given) => {
        const text = JSON.stringify(given.value ?? null);
        if (Buffer.byteLength(text) > MOST_VALUE)
          throw invalid('step', 'maxLength', `a step leaves at most ${MOST_VALUE} bytes`);
        await endStep(database, id, `step:${stepName(given.name)}`, text);
      },
    ],
    ['step.fail', async () => undefined],
    [
      'step.sleep',
      async (_scope, { args = [] }) => {
        const [first, second] = args;
        const [name, duration] = second === undefined ? [undefined, first] : [first, second];
        const row = await waitStep(database, id, {
          ...{ name: nameOf('sleep', name), ms: millisecondsOf(duration) },
        });
        if (row.done || (row.until !== null && row.until.getTime() <= Date.now())) return null;
        return suspend(row.until ?? new Date());
      },
    ],
    [
      'step.wait',
      async (_scope, { args = [] }) => {
        const [topic, options] = args;
        if (typeof topic !== 'string' || topic === '')
          throw invalid('event', 'type', 'must be the name of an event');
        const { timeout, id: about, name } = (options ?? {}) as Readonly<Record<string, unknown>>;
        const row = await waitStep(database, id, {
          ...{ name: nameOf('wait', name), topic, ms: millisecondsOf(timeout ?? LONGEST_MS) },
          ...(about !== undefined && { about: String(about) }),
        });
        if (row.done) return row.value;
        if (row.until !== null && row.until.getTime() <= Date.now()) return null;
        return suspend(row.until ?? new Date());
      },
    ],
  ]);
}

function stepName(name: unknown): string {
  if (typeof name === 'string' && name !== '' && name.length <= 200) return name;
  throw invalid('step', 'name', 'a step has a name of 1 to 200 characters');
}

const units: ReadonlyMap<string, number> = new Map([
  ['ms', 1],
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', DAY_MS],
]);
const durationText = /^(\d{1,9})(ms|s|m|h|d)$/;

/** A number of milliseconds, or a text such as `10s`, `5m`, `2h`, `3d`. */
function millisecondsOf(duration: unknown): number {
  const [, count, unit = ''] = (typeof duration === 'string' && durationText.exec(duration)) || [];
  const ms =
    typeof duration === 'number' ? duration : Number(count) * (units.get(unit) ?? Number.NaN);
  if (ms >= 0 && ms <= LONGEST_MS) return ms;
  throw invalid(
    'duration',
    'format',
    'is milliseconds or a text such as 10s, 5m, 2h or 3d, up to 400d',
  );
}

async function stepOf(
  database: Database,
  item: string,
  name: string,
): Promise<StepRow | undefined> {
  const { rows } = await database.query<StepRow>(sql`
    select done, value, until from penstock.function_steps where item = ${item}::uuid and name = ${name}`);
  return rows[0];
}

async function endStep(
  database: Database,
  item: string,
  name: string,
  value: string,
): Promise<void> {
  await database.query(sql`
    insert into penstock.function_steps (item, name, done, value) values (${item}::uuid, ${name}, true, ${value}::jsonb)
    on conflict (item, name) do nothing`);
}

interface Waiting {
  readonly name: string;
  readonly ms: number;
  readonly topic?: string;
  /** An id that the event must be about. */
  readonly about?: string;
}

/** The step as it was begun first: a later run does not begin to wait anew. */
async function waitStep(
  database: Database,
  item: string,
  { name, ms, topic, about }: Waiting,
): Promise<StepRow> {
  const until = new Date(Date.now() + ms);
  await database.query(sql`
    insert into penstock.function_steps (item, name, done, until, topic, about)
    values (${item}::uuid, ${name}, false, ${until}, ${topic ?? null}, ${about ?? null})
    on conflict (item, name) do nothing`);
  return (await stepOf(database, item, name)) ?? { done: false, value: null, until };
}
