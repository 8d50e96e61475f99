/** What the triggers of functions share: events, hooks, schedules and workflows. */
import type { Kernel } from '../../../host/kernel.ts';
import { type Caller, system } from '../../../kernel/caller.ts';
import type { EventConsumer } from '../../../kernel/events/event-consumer.ts';
import type { DurableQueue } from '../../../kernel/queue/durable-queue.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { FunctionsConfig } from '../config.ts';
import type { StoredFunction } from '../definition/definition.ts';
import type { FunctionRunner } from '../services/runner.ts';
import type { FunctionStore } from '../services/store.ts';

export interface TriggerParts
  extends Pick<Kernel, 'database' | 'events' | 'records' | 'hooks' | 'schemas'> {
  readonly store: FunctionStore;
  readonly runner: FunctionRunner;
  readonly queue: DurableQueue;
  readonly consumer: EventConsumer;
  /** Runs were stored. */
  readonly wake: () => void;
  readonly config: () => FunctionsConfig;
  readonly log: Logger;
}

/** The name under which runs of functions wait. */
export const queueName = 'functions';

/** What a stored run is about. */
export type RunData =
  | {
      readonly kind: 'event' | 'hook';
      readonly topic: string;
      readonly sequence: number;
      readonly occurredAt: string;
      readonly schema?: string;
      readonly operation?: 'insert' | 'update' | 'delete';
      readonly ids?: readonly string[];
      readonly payload?: Readonly<Record<string, unknown>>;
      readonly causes?: readonly string[];
    }
  | { readonly kind: 'cron'; readonly scheduledAt: string; readonly pattern: string }
  /** Of a webhook that is answered before its code runs. */
  | { readonly kind: 'webhook'; readonly req: Readonly<Record<string, unknown>> }
  | { readonly kind: 'workflow'; readonly input: unknown; readonly causes?: readonly string[] };

/**
 * In whose name a function acts that nobody calls: with the rights of the system where its definition says so, else
 * with those of a visitor.
 */
export const ownCaller = ({ name, inputs }: StoredFunction): Caller =>
  inputs.rights === 'system' ? system(`functions/${name}`) : { kind: 'anonymous' };

/** The words of triggers for what events call by those of the database. */
export const operationWords = { insert: 'create', update: 'update', delete: 'delete' } as const;
