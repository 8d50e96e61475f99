/** Carries a plan out, step by step: configurations, then the types in their order, then what goes in the reverse order. */
import type { Caller } from '../../../../kernel/caller.ts';
import type { ConfigService } from '../../../../kernel/config/config-service.ts';
import { PenstockError } from '../../../../kernel/errors.ts';
import type { StateChange } from '../../../../kernel/state.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import type { StatePlan, TypeStep } from './plan.ts';

/* What is about types, by module and type, as documents and answers have it. */

export interface OfType<T> {
  readonly module: string;
  readonly type: string;
  readonly value: T;
}

export const nested = <T>(
  all: readonly OfType<T>[],
): Readonly<Record<string, Readonly<Record<string, T>>>> =>
  Object.fromEntries(
    [...Map.groupBy(all, ({ module }) => module)].map(([module, of]) => [
      module,
      Object.fromEntries(of.map(({ type, value }) => [type, value] as const)),
    ]),
  );

interface ConfigResult {
  success: boolean;
  error?: string;
}

interface TypeResult {
  created: number;
  updated: number;
  deleted: number;
  unchanged: number;
  skipped: number;
  failed: number;
  errors: string[];
}

export interface ImportResult {
  readonly configResults: Readonly<Record<string, ConfigResult>>;
  readonly moduleResults: Readonly<Record<string, Readonly<Record<string, TypeResult>>>>;
  /** Every step worked. */
  readonly complete: boolean;
}

interface ApplyParts {
  readonly config: ConfigService;
  readonly log: Logger;
  /** Go on after a step that failed. */
  readonly continueOnError: boolean;
}

const NOT_TRIED = 'not tried, because an earlier step failed';

export async function applyPlan(
  parts: ApplyParts,
  caller: Caller,
  plan: StatePlan,
): Promise<ImportResult> {
  const { config, log, continueOnError } = parts;
  let failed = false;
  /** Answers why the step failed, if it did. */
  const step = async (name: string, work: () => Promise<unknown>): Promise<string | undefined> => {
    if (failed && !continueOnError) return NOT_TRIED;
    try {
      await work();
      return undefined;
    } catch (error) {
      failed = true;
      if (error instanceof PenstockError && error.status < 500) return error.message;
      log.error({ err: error, step: name }, 'A step of a state import failed');
      return error instanceof PenstockError
        ? error.message
        : 'it failed on our side; the log says why';
    }
  };

  const configResults: Record<string, ConfigResult> = Object.fromEntries(
    plan.entries
      .filter(({ type }) => type === 'config')
      .map(({ module }) => [module, { success: true }]),
  );
  for (const { module, patch, strict, version } of plan.configs) {
    const error = await step(`config ${module}`, () =>
      config.change(caller, module, patch, { strict, expectedVersion: version }),
    );
    if (error !== undefined) configResults[module] = { success: false, error };
  }

  const results = new Map(plan.steps.map((one) => [one, emptyResult(one)]));
  const run = async (one: TypeStep, changes: readonly StateChange[]): Promise<void> => {
    const result = results.get(one);
    if (!result || changes.length === 0) return;
    const error = await step(`${one.state.module}.${one.state.type}`, () =>
      one.state.apply(caller, changes),
    );
    note(result, changes, error);
  };
  for (const one of plan.steps) await run(one, changesOf(one, { deleting: false }));
  for (const one of plan.steps.toReversed()) await run(one, changesOf(one, { deleting: true }));
  const moduleResults = nested(
    [...results].map(([{ state }, value]) => ({ module: state.module, type: state.type, value })),
  );
  return { configResults, moduleResults, complete: !failed };
}

const changesOf = (
  { changes }: TypeStep,
  { deleting }: { readonly deleting: boolean },
): readonly StateChange[] => changes.filter(({ action }) => (action === 'delete') === deleting);

const emptyResult = ({ unchanged, skipped }: TypeStep): TypeResult => ({
  created: 0,
  updated: 0,
  deleted: 0,
  unchanged,
  skipped,
  failed: 0,
  errors: [],
});

const counters = { create: 'created', update: 'updated', delete: 'deleted' } as const;

function note(
  result: TypeResult,
  changes: readonly StateChange[],
  error: string | undefined,
): void {
  if (error !== undefined) {
    result.failed += changes.length;
    result.errors.push(error);
    return;
  }
  for (const { action } of changes) result[counters[action]] += 1;
}
