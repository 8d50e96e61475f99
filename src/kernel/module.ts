/**
 * What a module is: a name, what it needs, its configuration, its data, and a
 * `start` that answers its operations and its service. Modules are started in
 * dependency order and can be switched off and on while the platform runs.
 */
import type { Static, TObject } from 'typebox';
import type { ConfigDefinition, ConfigHandle } from './config/definition.ts';
import type { Migration } from './database/migration.ts';
import type { JobDefinition } from './jobs/jobs.ts';
import type { Kernel } from './kernel.ts';
import type { Operation } from './operation.ts';
import type { SchemaDefinition } from './schema/definition.ts';
import type { Logger } from './telemetry/logger.ts';

/** Modules that a module builds on, by the name it wants to call them. */
export type Requirements = Readonly<Record<string, ModuleDefinition<TObject, unknown, Requirements>>>;

type ServiceOf<M> = M extends ModuleDefinition<TObject, infer S, Requirements> ? S : never;

export interface ModuleDefinition<C extends TObject, S, R extends Requirements> {
  /** Lower case; the first path segment of its admin routes and its `/config/<name>`. */
  readonly name: string;
  readonly description: string;
  readonly requires: R;
  readonly config: ConfigDefinition<C>;
  /** Core cannot be switched off; everything else has a config key `active`. */
  readonly essential?: boolean;
  /** Schemas it owns, brought up to date before it starts. */
  readonly schemas?: readonly SchemaDefinition[];
  /** Tables of its own beyond schemas, in the PostgreSQL schema `penstock`; run after `schemas`. */
  readonly migrations?: readonly Migration[];
  start(context: ModuleContext<Static<C>, R>): Promise<RunningModule<S>>;
}

/** Everything a module may reach. */
export interface ModuleContext<C, R extends Requirements = Requirements> {
  readonly kernel: Kernel;
  readonly config: ConfigHandle<C>;
  /** Services of required modules; all of them run. */
  readonly services: { readonly [K in keyof R]: ServiceOf<R[K]> };
  readonly log: Logger;
}

export interface RunningModule<S> {
  /** What other modules may call. */
  readonly service: S;
  readonly operations: readonly Operation[];
  readonly jobs?: readonly JobDefinition[];
  /** Undo everything `start` did beyond operations and jobs. */
  stop?(): Promise<void>;
}

/** A module of unknown types, as the host handles it. */
export type AnyModule = ModuleDefinition<TObject, unknown, Requirements>;

/**
 * Declares a module. Its `index.ts` exports the result and the type of its service, and is the
 * only file of it that others may import.
 */
export function defineModule<C extends TObject, S, const R extends Requirements = Record<never, never>>(
  definition: ModuleDefinition<C, S, R>,
): ModuleDefinition<C, S, R> {
  return Object.freeze(definition);
}
