/** Everything that starts a function without a request for it: events, hooks, schedules, workflows. */
import Type from 'typebox';
import { sql } from '../../../kernel/database/sql.ts';
import { invalid, type Problem } from '../../../kernel/errors.ts';
import { createEventConsumer } from '../../../kernel/events/event-consumer.ts';
import { newId } from '../../../kernel/ids.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { invalidValueProblem } from '../../../kernel/operations/invalid-value.ts';
import type { Operation } from '../../../kernel/operations/operation.ts';
import { createDurableQueue } from '../../../kernel/queue/create-durable-queue.ts';
import type { QueueWorker } from '../../../kernel/queue/durable-queue.ts';
import type { FunctionDefinition, StoredFunction } from '../definition/definition.ts';
import type { FunctionStore } from '../services/store.ts';
import { fanOutRuns, followsEvents } from './events.ts';
import { followHooks, triggerProblems } from './hooks.ts';
import { triggerOperations } from './operations.ts';
import { queueName, type RunData, type TriggerParts } from './parts.ts';
import { startRuns } from './runs.ts';
import { createSchedules, scheduleProblems } from './schedules.ts';

export interface Triggers {
  readonly operations: readonly Operation[];
  readonly jobs: readonly JobDefinition[];
  /** Stores a message for a webhook that is answered before its code runs; answers the id of the run. */
  later(webhook: StoredFunction, req: Readonly<Record<string, unknown>>): Promise<string>;
  /** Runs of functions that have ended are tried once more; false where a function has none of this id. */
  repeat(functionId: string, runId: string): Promise<boolean>;
  /** From now on events are kept, until nobody follows them. */
  follow(): Promise<void>;
  stop(): Promise<void>;
}

type Given = Omit<TriggerParts, 'queue' | 'consumer' | 'wake'>;

/** What is wrong with how a definition is started. */
export const startProblems = (definition: FunctionDefinition): readonly Problem[] => [
  ...scheduleProblems(definition),
  ...triggerProblems(definition),
];

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
  const stopFollowing = store.onChange(() => {
    void database
      .outside(() => schedules.reconcile())
      .catch((error: unknown) => log.error({ err: error }, 'Schedules could not be taken in'));
  });
  if (store.all().some(followsEvents)) await consumer.follow(database);
  await schedules.reconcile();
  worker = startRuns(parts);
  consumer.start();
  schedules.start();
  return {
    operations: triggerOperations(parts),
    jobs: [tidy(parts)],
    follow: () => consumer.follow(database),
    later: (webhook, req) => storeMessage(parts, webhook, req),
    repeat: (functionId, runId) => repeatRun(parts, functionId, runId),
    async stop() {
      stopFollowing();
      stopHooks();
      await schedules.stop();
      await consumer.stop();
      await worker?.stop();
    },
  };
}

async function storeMessage(
  { queue, database, wake }: TriggerParts,
  { _id: target }: StoredFunction,
  req: Readonly<Record<string, unknown>>,
): Promise<string> {
  // Code that runs at once may read what it likes; what is stored must be something that the database takes.
  const problem = invalidValueProblem(req, '');
  if (problem) throw invalid(problem.path, problem.rule, problem.message);
  const dedupe = `webhook:${newId()}`;
  const data: RunData = { kind: 'webhook', req };
  await queue.add(database, [{ target, dedupe, data }]);
  wake();
  const run = await queue.find(target, dedupe);
  return run?.id ?? '';
}

async function repeatRun(
  { queue, database, wake }: TriggerParts,
  functionId: string,
  runId: string,
): Promise<boolean> {
  const row = await queue.get(runId);
  if (row?.target !== functionId || !(await queue.repeat(database, row.id))) return false;
  wake();
  return true;
}

/** A store whose changes hold for events from the moment of the change: they are kept from before it. */
export const followingStore = (
  store: FunctionStore,
  follow: () => Promise<void>,
): FunctionStore => ({
  ...store,
  async change(caller, work) {
    await follow();
    return store.change(caller, work);
  },
  async enable(...input) {
    await follow();
    return store.enable(...input);
  },
});

/** Forgets runs whose time is over, and steps of workflows that are gone. */
const tidy = ({ queue, consumer, store, database }: TriggerParts): JobDefinition =>
  defineJob({
    name: 'functions.tidy-runs',
    data: Type.Object({}),
    schedule: '41 * * * *',
    async handler(_data, { signal }) {
      if (!store.all().some(followsEvents)) await consumer.leave(database);
      for (let gone = 1; gone > 0 && !signal.aborted; )
        gone = await queue.purge({ done: 7, dead: 60 });
      await database.query(sql`
        delete from penstock.function_steps s where not exists (
          select from penstock.queue_items i where i.id = s.item)`);
    },
  });
