/** Everything that starts a function without a request for it: events, hooks, schedules, workflows. */

import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';
import { invalid, type Problem } from '../../../kernel/errors.ts';
import { createEventConsumer } from '../../../kernel/events/event-consumer.ts';
import { newId } from '../../../kernel/ids.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { invalidValueProblem } from '../../../kernel/operations/invalid-value.ts';
import type { Operation } from '../../../kernel/operations/operation.ts';
import { createDurableQueue } from '../../../kernel/queue/create-durable-queue.ts';
import type { QueueWorker } from '../../../kernel/queue/durable-queue.ts';
import type { FunctionDefinition } from '../definition/definition.ts';
import { loadFunctions } from '../queries/functions.ts';
import type { RouteParts } from '../services/routes.ts';
import type { FunctionStore } from '../services/store.ts';
import { fanOutRuns, followsEvents } from './events.ts';
import { followHooks, triggerProblems } from './hooks.ts';
import { requireContent, triggerOperations } from './operations.ts';
import { queueName, type RunData, type TriggerParts } from './parts.ts';
import { startRuns } from './runs.ts';
import { createSchedules, isSchedule, scheduleProblems } from './schedules.ts';

export interface Triggers {
  readonly operations: readonly Operation[];
  readonly jobs: readonly JobDefinition[];
  /** Stores a message for a webhook that is answered before its code runs; answers the id of the run. */
  readonly later: RouteParts['later'];
  /** Runs of functions that have ended are tried once more; false where a function has none of this id. Throws 403 as their list. */
  repeat(caller: Caller, functionId: string, runId: string): Promise<boolean>;
  /** From the end of the transaction on events are kept, until nobody follows them. */
  follow(transaction: Transaction): Promise<void>;
  stop(): Promise<void>;
}

type Given = Omit<TriggerParts, 'queue' | 'consumer' | 'wake'>;

/** What is wrong with how a definition is started. */
export const startProblems =
  (modules: Kernel['modules']) =>
  (definition: FunctionDefinition): readonly Problem[] => {
    const origins = modules.list().map(({ name }) => name);
    return [...scheduleProblems(definition), ...triggerProblems(definition, origins)];
  };

export async function startTriggers(given: Given): Promise<Triggers> {
  const { database, events, log, store } = given;
  const queue = createDurableQueue(database, queueName);
  let worker: QueueWorker | undefined;
  const wake = (): void => worker?.wake();
  const consumer = createEventConsumer({
    ...{ name: queueName, database, events, log },
    handle: (transaction, list) => fanOutRuns(parts, transaction, list),
    onHandled: wake,
  });
  const parts: TriggerParts = { ...given, queue, consumer, wake };
  const schedules = createSchedules(parts);
  const stopHooks = followHooks(parts);
  const stopFollowing = store.onChange((before) => {
    if ([...before, ...store.all()].some(isSchedule)) schedules.changed();
  });
  if (store.all().some(followsEvents)) await consumer.follow(database);
  await schedules.reconcile();
  worker = startRuns(parts);
  consumer.start();
  schedules.start();
  return {
    operations: triggerOperations(parts),
    jobs: [tidy(parts)],
    async follow(transaction) {
      await lockFollowing(transaction);
      await consumer.follow(transaction);
    },
    later: storingMessages(parts),
    repeat: (caller, functionId, runId) => repeatRun(parts, caller, functionId, runId),
    async stop() {
      stopFollowing();
      stopHooks();
      await schedules.stop();
      await consumer.stop();
      await worker?.stop();
    },
  };
}

/** It was taken, and it waits, or neither: its sender sends again what was not answered. */
const storingMessages =
  ({ queue, database, wake }: TriggerParts): Triggers['later'] =>
  async ({ _id: target }, req, take) => {
    // Code that runs at once may read what it likes; what is stored must be something that the database takes.
    const problem = invalidValueProblem(req, '');
    if (problem) throw invalid(problem.path, problem.rule, problem.message);
    const dedupe = `webhook:${newId()}`;
    const data: RunData = { kind: 'webhook', req };
    await database.outside(() =>
      database.transaction(async (transaction) => {
        await take(transaction);
        await queue.add(transaction, [{ target, dedupe, data }]);
      }),
    );
    wake();
    const run = await queue.find(target, dedupe);
    return run?.id ?? '';
  };

async function repeatRun(
  parts: TriggerParts,
  caller: Caller,
  functionId: string,
  runId: string,
): Promise<boolean> {
  const { queue, database, wake } = parts;
  const row = await queue.get(runId);
  if (row?.target !== functionId) return false;
  requireContent(parts, caller, [row]);
  if (!(await queue.repeat(database, row.id))) return false;
  wake();
  return true;
}

/** A store whose changes hold for events from the moment of the change: they are kept from then on. */
export const followingStore = (
  store: FunctionStore,
  follow: (transaction: Transaction) => Promise<void>,
): FunctionStore => ({
  ...store,
  change: (caller, work) =>
    store.change(caller, async (transaction) => {
      await follow(transaction);
      await work(transaction);
    }),
});

/** Held to the end of the transaction: nobody stops following between the start of a change and its commit. */
const lockFollowing = (transaction: Transaction): Promise<unknown> =>
  transaction.query(sql`select pg_advisory_xact_lock(hashtextextended('penstock.functions', 0))`);

/** What is stored counts: this node may not have heard of the newest function yet. */
const leaveUnlessFollowed = ({ database, consumer }: TriggerParts): Promise<void> =>
  database.transaction(async (transaction) => {
    await lockFollowing(transaction);
    const stored = await loadFunctions(transaction);
    if (!stored.some(followsEvents)) await consumer.leave(transaction);
  });

/** Forgets runs whose time is over, and steps of workflows that are gone. */
const tidy = (parts: TriggerParts): JobDefinition =>
  defineJob({
    name: 'functions.tidy-runs',
    data: Type.Object({}),
    schedule: '41 * * * *',
    async handler(_data, { signal }) {
      const { queue, database } = parts;
      await leaveUnlessFollowed(parts);
      for (let gone = 1; gone > 0 && !signal.aborted; )
        gone = await queue.purge({ done: 7, dead: 60 });
      await database.query(sql`
        delete from penstock.function_steps s where not exists (
          select from penstock.queue_items i where i.id = s.item)`);
    },
  });
