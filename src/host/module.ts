/**
 * What a module is: a name, what it needs, its configuration, its data, and a
 * `start` that answers its operations and its service. Modules are started in
 * dependency order and can be switched off and on while the platform runs.
 */
import type { Static, TObject } from 'typebox';
import type { SchemaDefinition } from '../data/schema/language/definition.ts';
import type { ConfigDefinition, ConfigHandle } from '../kernel/config/config-definition.ts';
import type { Migration } from '../kernel/database/migrate.ts';
import type { JobDefinition } from '../kernel/jobs/jobs.ts';
import type { Operation } from '../kernel/operations/operation.ts';
import type { Prompt } from '../kernel/operations/prompts.ts';
import type { Settings } from '../kernel/settings/settings.ts';
import type { StateType } from '../kernel/state.ts';
import type { Logger } from '../kernel/telemetry/logger.ts';
import type { Kernel } from './kernel.ts';

/** Modules that a module builds on, by the name it wants to call them. */
export type Requirements = Readonly<
  Record<string, ModuleDefinition<TObject, unknown, Requirements>>
>;

type ServiceOf<M> = M extends ModuleDefinition<TObject, infer S, Requirements> ? S : never;

/** A module that another one works with while it runs, and does without while it does not. */
export interface OptionalModule<S> {
  /** Its service, or nothing while it does not run. Ask anew for each use. */
  current(): S | undefined;
  /** Told after it has started, and before it stops (`current` answers nothing by then). Answers how to stop listening. */
  onChange(listener: () => void): () => void;
}

type OptionalModules<U> = { readonly [K in keyof U]: OptionalModule<ServiceOf<U[K]>> };

export interface ModuleDefinition<
  C extends TObject,
  S,
  R extends Requirements,
  U extends Requirements = Requirements,
> {
  /** Lower case; the first path segment of its admin routes and its `/config/<name>`. */
  readonly name: string;
  readonly description: string;
  /** Names of modules of the 0.16 line that it took in: old clients look for them in the list of modules. */
  readonly formerly?: readonly string[];
  readonly requires: R;
  /** Modules that it works with when they run; they start before it. */
  readonly uses?: U;
  readonly config: ConfigDefinition<C>;
  /** `config` with the defaults of this environment, where they depend on it. */
  configFor?(settings: Settings): ConfigDefinition<C>;
  /** What its routes answer while it is switched off: 503 unless `missing`, for routes that only some installations have. */
  readonly whenOff?: 'missing';
  /** Core cannot be switched off; everything else has a config key `active`. */
  readonly essential?: boolean;
  /** Schemas it owns, brought up to date before it starts. */
  readonly schemas?: readonly SchemaDefinition[];
  /** Tables of its own beyond schemas, in the PostgreSQL schema `penstock`; run after `schemas`. */
  readonly migrations?: readonly Migration[];
  start(context: ModuleContext<Static<C>, R, U>): Promise<RunningModule<S>>;
}

/** Everything a module may reach. */
export interface ModuleContext<
  C,
  R extends Requirements = Requirements,
  U extends Requirements = Requirements,
> {
  readonly kernel: Kernel;
  readonly config: ConfigHandle<C>;
  /** Services of required modules; all of them run. */
  readonly services: { readonly [K in keyof R]: ServiceOf<R[K]> };
  /** What is named under `uses`. */
  readonly optional: OptionalModules<U>;
  readonly log: Logger;
}

export interface RunningModule<S> {
  /** What other modules may call. */
  readonly service: S;
  readonly operations: readonly Operation[];
  /** Jobs that models do with its tools. */
  readonly prompts?: readonly Prompt[];
  readonly jobs?: readonly JobDefinition[];
  /** What of it operators keep as a document. */
  readonly state?: readonly StateType[];
  /** Undo everything `start` did beyond operations, prompts, jobs and state. */
  stop?(): Promise<void>;
}

/** A module of unknown types, as the host handles it. */
export type AnyModule = ModuleDefinition<TObject, unknown, Requirements>;

/**
 * Declares a module. Its `index.ts` exports the result and the type of its service, and is the
 * only file of it that others may import.
 */
export function defineModule<
  C extends TObject,
  S,
  const R extends Requirements = Record<never, never>,
  const U extends Requirements = Record<never, never>,
>(definition: ModuleDefinition<C, S, R, U>): ModuleDefinition<C, S, R, U> {
  return Object.freeze(definition);
}
