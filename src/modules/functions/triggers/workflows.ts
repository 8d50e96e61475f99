/**
 * Workflows: functions that go on where they were. A step that has ended is not done again, whatever died meanwhile; a
 * workflow that sleeps or waits for an event holds nothing but its row.
 */
import type { Database, Transaction } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';
import { invalid } from '../../../kernel/errors.ts';
import { isId } from '../../../kernel/ids.ts';
import { invalidValueProblem } from '../../../kernel/operations/invalid-value.ts';
import type { QueueItem, Verdict } from '../../../kernel/queue/durable-queue.ts';
import { cutText } from '../../../kernel/text.ts';
import { type HostCall, type RunScope, RunSuspended } from '../services/host-calls.ts';

/** Why a run of a workflow ends before the workflow does. */
interface Suspension {
  /** The step that it cannot pass yet. */
  readonly step: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
}

const DAY_MS = 86_400_000;
const LONGEST_MS = 400 * DAY_MS;
/** Bytes of what one step leaves. */
const MAX_VALUE = 262_144;

interface StepRow {
  readonly done: boolean;
  readonly value: unknown;
  readonly until: Date | null;
}

/** What one try has come by. A loop whose steps have one name would do the first of them alone. */
interface Once {
  /** Throws 400 for a second time. */
  take(step: string): void;
  /** It may be taken again. */
  failed(step: string): void;
}

function createOnce(): Once {
  const taken = new Set<string>();
  return {
    take(step) {
      if (taken.has(step))
        throw invalid(
          'step',
          'unique',
          `${step} was there already: names are unique in a workflow`,
        );
      taken.add(step);
    },
    failed: (step) => void taken.delete(step),
  };
}

const stepCalls = (
  database: Database,
  id: string,
  once: Once,
): readonly (readonly [name: string, call: HostCall])[] => [
  [
    'step.begin',
    async (_scope, given) => {
      const step = `step:${stepName(given.name)}`;
      once.take(step);
      const row = await stepOf(database, id, step);
      return row?.done ? { done: true, value: row.value } : { done: false };
    },
  ],
  [
    'step.end',
    async (_scope, given) => {
      const step = `step:${stepName(given.name)}`;
      once.failed(step);
      const text = valueText(given.value);
      const isFirst = await endStep(database, id, step, text);
      once.take(step);
      // A try that lost its lease had ended it before: what that one has kept counts.
      return isFirst ? undefined : { value: (await stepOf(database, id, step))?.value ?? null };
    },
  ],
  // It may be tried again.
  ['step.fail', async (_scope, given) => void once.failed(`step:${stepName(given.name)}`)],
];

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
  const once = createOnce();
  const suspend = (step: string, until: Date | null): never => {
    throw new RunSuspended({ step, until: until?.getTime() ?? Date.now() } satisfies Suspension);
  };

  return new Map<string, HostCall>([
    ...stepCalls(database, id, once),
    [
      'step.sleep',
      async (_scope, { args = [] }) => {
        const [first, second] = args;
        const [name, duration] = second === undefined ? [undefined, first] : [first, second];
        const step = nameOf('sleep', name);
        once.take(step);
        const row = await waitStep(database, id, { name: step, ms: millisecondsOf(duration) });
        return row.done || isOver(row) ? null : suspend(step, row.until);
      },
    ],
    [
      'step.wait',
      async (scope, { args = [] }) => {
        const [topic, options] = args;
        if (typeof topic !== 'string' || topic === '' || topic.endsWith('*'))
          throw invalid('event', 'type', 'must be the name of one event');
        const { timeout, id: about, name } = waitOptions(options);
        const step = nameOf('wait', name);
        once.take(step);
        const row = await waitStep(database, id, {
          ...{ name: step, topic, ms: millisecondsOf(timeout ?? LONGEST_MS) },
          // Events have ids of records in small letters.
          ...(about !== undefined && { about: isId(about) ? about.toLowerCase() : String(about) }),
        });
        if (row.done) return heardBy(scope, row.value);
        if (!isOver(row)) return suspend(step, row.until);
        return heardBy(scope, await endWait(database, id, step));
      },
    ],
  ]);
}

/** The code names the event, and nobody asked whether whoever stored it may hear of it: only the system hears all of it. */
function heardBy({ facts }: RunScope, event: unknown): unknown {
  const isWhole = event === null || facts.function.inputs.rights === 'system';
  return isWhole ? event : { ...(event as object), payload: null };
}

/** What a step leaves, as JSON. */
function valueText(value: unknown): string {
  const problem = invalidValueProblem(value, '');
  if (problem) throw invalid('step', problem.rule, `${problem.path} ${problem.message}`);
  const text = JSON.stringify(value ?? null);
  if (Buffer.byteLength(text) <= MAX_VALUE) return text;
  throw invalid('step', 'maxLength', `a step leaves at most ${MAX_VALUE} bytes`);
}

const waitWords: ReadonlySet<string> = new Set(['timeout', 'id', 'name']);

/** A word that is not known would be without effect: the wait would have no end. */
function waitOptions(options: unknown): Readonly<Record<string, unknown>> {
  if (options === undefined || options === null) return {};
  if (typeof options !== 'object') throw invalid('options', 'type', 'must be an object');
  const stray = Object.keys(options).find((word) => !waitWords.has(word));
  if (stray === undefined) return options as Readonly<Record<string, unknown>>;
  throw invalid('options', 'unknown', `${cutText(stray, 64)} is not one of timeout, id, name`);
}

const isOver = ({ until }: StepRow): boolean => until !== null && until.getTime() <= Date.now();

/**
 * What becomes of a run that was suspended. An event that came after the run had looked for it has ended the step and
 * could not wake the run, which still had its lease. So the step is looked at once more, with the end of the try: whoever
 * has the row of the step second sees what the other one did.
 */
export const whenSuspended = ({ id }: Pick<QueueItem, 'id'>, reason: unknown): Verdict => {
  const { step, until } = reason as Suspension;
  return {
    outcome: 'again',
    afterMs: Math.max(0, until - Date.now()),
    counts: false,
    hooked: (transaction) => goOnIfDone(transaction, id, step),
  };
};

/**
 * The order of the locks is step, then item, in `wakeWaiting` (events.ts), and item, then step, here. They do not block
 * each other: as long as this transaction is open, the item has its lease for others, and they leave it alone.
 */
async function goOnIfDone(transaction: Transaction, item: string, step: string): Promise<void> {
  const { rows } = await transaction.query<Pick<StepRow, 'done'>>(sql`
    select done from penstock.function_steps where item = ${item}::uuid and name = ${step} for update`);
  if (!rows[0]?.done) return;
  await transaction.query(sql`
    update penstock.queue_items set due_at = now() where id = ${item}::uuid and state = 'waiting'`);
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

/** False where it had ended before. */
async function endStep(
  database: Database,
  item: string,
  name: string,
  value: string,
): Promise<boolean> {
  const { count } = await database.query(sql`
    insert into penstock.function_steps (item, name, done, value) values (${item}::uuid, ${name}, true, ${value}::jsonb)
    on conflict (item, name) do nothing`);
  return count > 0;
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

/**
 * The timeout of a wait is its end: an event that comes later does not change what the workflow was told. Answers an
 * event that came just before.
 */
async function endWait(database: Database, item: string, name: string): Promise<unknown> {
  const { count } = await database.query(sql`
    update penstock.function_steps set done = true where item = ${item}::uuid and name = ${name} and not done`);
  return count > 0 ? null : ((await stepOf(database, item, name))?.value ?? null);
}
