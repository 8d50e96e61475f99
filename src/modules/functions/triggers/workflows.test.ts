/** Events that come while a run of a workflow ends: whichever of the two is first, the workflow goes on. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../../test/support/database.ts';
import { silentLog } from '../../../../test/support/log.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import { migrations as eventMigrations } from '../../../kernel/events/migrations.ts';
import { newId } from '../../../kernel/ids.ts';
import { createDurableQueue } from '../../../kernel/queue/create-durable-queue.ts';
import type { QueueWorker, Verdict } from '../../../kernel/queue/durable-queue.ts';
import { migrations as queueMigrations } from '../../../kernel/queue/migrations.ts';
import { UserCodeError } from '../errors.ts';
import { migrations } from '../migrations.ts';
import { type HostCall, type RunScope, RunSuspended } from '../services/host-calls.ts';
import type { RunRequest } from '../services/run-request.ts';
import { fanOutRuns } from './events.ts';
import { queueName, type TriggerParts } from './parts.ts';
import { startRuns } from './runs.ts';
import { workflowCalls } from './workflows.ts';

let opened: OpenTestDatabase;
/** Another node: it reads the events. */
let other: Database;
let worker: QueueWorker | undefined;
beforeAll(async () => {
  const sets = [
    { owner: 'events', migrations: eventMigrations },
    { owner: 'queue', migrations: queueMigrations },
    { owner: 'functions', migrations: migrations.filter(({ id }) => id === '0004-triggers') },
  ];
  opened = await openTestDatabase({ migrations: sets });
  other = await opened.openAgain();
});
afterEach(async () => {
  await worker?.stop();
  worker = undefined;
});
afterAll(() => opened.close());

const scopeWith = (rights: 'system' | 'caller'): RunScope =>
  ({ facts: { function: { inputs: { rights } } } }) as unknown as RunScope;
const noScope = scopeWith('system');
const callOf = (calls: ReadonlyMap<string, HostCall> | undefined, name: string): HostCall => {
  const call = calls?.get(name);
  if (!call) throw new Error(`There is no call ${name}`);
  return call;
};
const waitForPaid = (calls: ReadonlyMap<string, HostCall> | undefined, timeout: string) =>
  callOf(calls, 'step.wait')(noScope, { args: ['paid', { timeout }] });

/** The event is read and its readers are written, but not committed before `before` has ended. */
const publish = (before: () => Promise<unknown> = async () => undefined): Promise<void> =>
  other.transaction(async (transaction) => {
    const event = { topic: 'paid', sequence: 1, payload: { total: 12 } };
    const facts = { occurredAt: new Date().toISOString(), actor: 'system' };
    await fanOutRuns(partsWith({}), transaction, [{ ...event, ...facts } as PublishedEvent]);
    await before();
  });

const definition = { _id: newId(), name: 'waits', functionType: 'workflow', inputs: {} };
const partsWith = (more: object): TriggerParts =>
  ({
    ...{ database: opened.database, log: silentLog },
    queue: createDurableQueue(opened.database, queueName),
    store: { all: () => [], byId: () => ({ ...definition, enabled: true }) },
    config: () => ({ events: { attempts: 1, backoffMs: 10 } }),
    ...more,
  }) as unknown as TriggerParts;

/** A workflow that waits for one event. `onSuspended`: its first run has seen that there is none, and has not ended. */
const runnerWith = (onSuspended: () => Promise<unknown>) => {
  let runs = 0;
  return {
    async run({ calls }: RunRequest) {
      runs += 1;
      const first = runs === 1;
      try {
        return { executionId: newId(), result: await waitForPaid(calls, '1h') };
      } catch (error) {
        if (first && error instanceof RunSuspended) await onSuspended();
        throw error;
      }
    },
  };
};

async function start({ queue }: TriggerParts): Promise<string> {
  const dedupe = newId();
  const data = { kind: 'workflow', input: null };
  await queue.add(opened.database, [{ target: definition._id, dedupe, data }]);
  return (await queue.find(definition._id, dedupe))?.id ?? '';
}

const expectPaid = async ({ queue }: TriggerParts, id: string) => {
  const run = await waitFor(
    async () => {
      const row = await queue.get(id);
      return row?.state === 'done' ? row : undefined;
    },
    { timeoutMs: 30_000, what: 'the end of the workflow' },
  );
  expect(run.tries).toMatchObject([
    { outcome: 'done', note: { result: { topic: 'paid', payload: { total: 12 } } } },
  ]);
};

const isBlocked = async (): Promise<boolean> => {
  const { rows } = await other.query({
    text: `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  });
  return rows.length > 0;
};

it('an event after the run looked for it, and before the try has ended, wakes the workflow', async () => {
  const parts = partsWith({ runner: runnerWith(() => publish()) });
  const id = await start(parts);
  worker = startRuns(parts);
  await expectPaid(parts, id);
});

it('an event in a transaction that is open while the try ends, wakes the workflow', async () => {
  const [read, commits] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let publishing: Promise<void> | undefined;
  const onSuspended = async () => {
    publishing = publish(() => {
      read.resolve();
      return commits.promise;
    });
    await read.promise;
  };
  const parts = partsWith({ runner: runnerWith(onSuspended) });
  const id = await start(parts);
  worker = startRuns(parts);
  await read.promise;
  /** The end of the try waits for the event; one that does not wait has ended. */
  const hasEnded = async () => (await parts.queue.get(id))?.running === false;
  await waitFor(async () => (await isBlocked()) || hasEnded(), { timeoutMs: 30_000 });
  commits.resolve();
  await publishing;
  await expectPaid(parts, id);
});

it('an event while the end of the try is written and not committed, wakes the workflow', async () => {
  const queue = createDurableQueue(opened.database, queueName);
  let publishing: Promise<void> | undefined;
  const during = (verdict: Verdict): Verdict => ({
    ...verdict,
    async hooked(transaction) {
      await verdict.hooked?.(transaction);
      if (publishing) return;
      let published = false;
      publishing = publish().then(() => {
        published = true;
      });
      await waitFor(async () => published || (await isBlocked()), { timeoutMs: 30_000 });
    },
  });
  const parts = partsWith({
    runner: runnerWith(async () => undefined),
    queue: {
      ...queue,
      work: (options: Parameters<typeof queue.work>[0]) =>
        queue.work({
          ...options,
          handle: async (...given) => during(await options.handle(...given)),
        }),
    },
  });
  const id = await start(parts);
  worker = startRuns(parts);
  await waitFor(() => publishing !== undefined, { timeoutMs: 30_000 });
  await publishing;
  worker.wake();
  await expectPaid(parts, id);
});

it('an event after the timeout does not change what the workflow was told', async () => {
  const item = { id: newId() };
  const ask = () => waitForPaid(workflowCalls(opened.database, item), '0s');
  expect(await ask()).toBeNull();
  await publish();
  expect(await ask()).toBeNull();
});

it('hears of the record that it waits for however its id was spelled', async () => {
  const [record, item] = [newId(), newId()];
  const wait = () =>
    callOf(workflowCalls(opened.database, { id: item }), 'step.wait')(noScope, {
      args: ['shipped', { id: record.toUpperCase(), timeout: '1h' }],
    });
  await expect(wait()).rejects.toBeInstanceOf(RunSuspended);
  const facts = { occurredAt: new Date().toISOString(), actor: 'system' };
  const event = { topic: 'shipped', sequence: 2, ids: [record], ...facts };
  await other.transaction(
    async (transaction) =>
      void (await fanOutRuns(partsWith({}), transaction, [event as unknown as PublishedEvent])),
  );
  expect(await wait()).toMatchObject({ topic: 'shipped', ids: [record] });
});

it('tells what an event carries only where the workflow has the rights of the system', async () => {
  for (const [rights, payload] of [
    ['system', { email: 'a@b.example' }],
    ['caller', null],
  ] as const) {
    const item = { id: newId() };
    const wait = () =>
      callOf(workflowCalls(opened.database, item), 'step.wait')(scopeWith(rights), {
        args: ['registered', { timeout: '1h' }],
      });
    await expect(wait()).rejects.toBeInstanceOf(RunSuspended);
    const facts = { occurredAt: new Date().toISOString(), actor: 'system', ids: ['1'] };
    const event = { topic: 'registered', sequence: 3, payload: { email: 'a@b.example' }, ...facts };
    await other.transaction(
      async (transaction) =>
        void (await fanOutRuns(partsWith({}), transaction, [event as unknown as PublishedEvent])),
    );
    expect(await wait()).toMatchObject({ topic: 'registered', ids: ['1'], payload });
  }
});

const asked = (
  calls: ReturnType<typeof workflowCalls>,
  name: string,
  given: Readonly<Record<string, unknown>>,
) => callOf(calls, name)(noScope, given);

it('refuses a second step of one name in a try, and lets one that failed be tried again', async () => {
  const item = { id: newId() };
  const first = workflowCalls(opened.database, item);
  await asked(first, 'step.begin', { name: 'charge' });
  await asked(first, 'step.fail', { name: 'charge' });
  expect(await asked(first, 'step.begin', { name: 'charge' })).toEqual({ done: false });
  await asked(first, 'step.end', { name: 'charge', value: 1 });
  for (const calls of [first, workflowCalls(opened.database, item)]) {
    if (calls !== first)
      expect(await asked(calls, 'step.begin', { name: 'charge' })).toEqual({
        done: true,
        value: 1,
      });
    await expect(asked(calls, 'step.begin', { name: 'charge' })).rejects.toMatchObject({
      ...{ status: 400, message: expect.stringContaining('names are unique') },
    });
  }
});

it('goes on with what another try has kept of a step that both have done', async () => {
  const item = { id: newId() };
  const [lost, found] = [1, 2].map(() => workflowCalls(opened.database, item));
  for (const calls of [lost, found]) await asked(calls as never, 'step.begin', { name: 'pick' });
  const end = (calls: typeof lost, value: unknown) =>
    asked(calls as never, 'step.end', { name: 'pick', value });
  expect(await end(lost, 1)).toBeUndefined();
  expect(await end(found, 2)).toEqual({ value: 1 });
});

it('counts a refusal by the code as a try, whatever code it has', async () => {
  const user = { name: 'Rejection', message: 'no', code: 'FUNCTION_BUSY' };
  const run = { logs: [], executionId: newId(), duration: 1, cpuMs: 1, memoryPeak: 1 };
  const cause = new UserCodeError(user, run);
  const refusal = new PenstockError('FUNCTION_BUSY', 503, 'no', { cause });
  const parts = partsWith({ runner: { run: () => Promise.reject(refusal) } });
  await parts.queue.add(opened.database, [
    { target: definition._id, dedupe: newId(), data: { kind: 'event', topic: 'x' } },
  ]);
  worker = startRuns(parts);
  await waitFor(
    async () => (await parts.queue.list({ state: 'dead' }, { skip: 0, limit: 1 })).count > 0,
  );
});

it('refuses a second sleep of one name in a try', async () => {
  const calls = workflowCalls(opened.database, { id: newId() });
  expect(await asked(calls, 'step.sleep', { args: ['pause', 0] })).toBeNull();
  await expect(asked(calls, 'step.sleep', { args: ['pause', '1d'] })).rejects.toMatchObject({
    status: 400,
  });
});

it.each([
  [['paid', { timout: '1s' }], 'options: timout is not one of timeout, id, name'],
  [['paid', '1s'], 'options: must be an object'],
  [['database:create:*'], 'event: must be the name of one event'],
])('refuses to wait for what would never come: %j', async (args, message) => {
  const calls = workflowCalls(opened.database, { id: newId() });
  await expect(asked(calls, 'step.wait', { args })).rejects.toMatchObject({ status: 400, message });
});
