import Type from 'typebox';
import { describe, expect, it } from 'vitest';
import { silentLog } from '../../../../../test/support/log.ts';
import { system } from '../../../../kernel/caller.ts';
import type { ConfigService } from '../../../../kernel/config/config-service.ts';
import { errors } from '../../../../kernel/errors.ts';
import { type StateChange, type StateType, touchesNothing } from '../../../../kernel/state.ts';
import { applyPlan } from './apply.ts';
import type { StatePlan, TypeStep } from './plan.ts';
import { collectRefusals } from './refusals.ts';

const caller = system('test');
const change = (action: StateChange['action'], key: string): StateChange => ({
  action,
  key,
  place: key,
});

/** Steps of types that note what they are asked to do; those named in `failing` refuse everything. */
function stepsOf(
  done: string[],
  changes: Readonly<Record<string, readonly StateChange[]>>,
  failing: readonly string[] = [],
): readonly TypeStep[] {
  return Object.entries(changes).map(([type, of], priority) => {
    const state: StateType = {
      module: 'shop',
      type,
      priority,
      document: Type.Object({}),
      keyOf: () => '',
      touches: touchesNothing,
      export: async () => [],
      complete: async () => [],
      async apply(_caller, asked) {
        if (failing.includes(type)) throw errors.CONFLICT({ message: `${type} are in the way` });
        done.push(...asked.map(({ action, key }) => `${action} ${key}`));
      },
    };
    return { state, changes: of, unchanged: 2, skipped: 0 };
  });
}

const planOf = (steps: readonly TypeStep[]): StatePlan => ({
  entries: [],
  checksum: '',
  warnings: [],
  refusals: collectRefusals(),
  configs: [],
  steps,
});
const run = (steps: readonly TypeStep[], continueOnError = false) =>
  applyPlan(
    { config: {} as ConfigService, log: silentLog, continueOnError },
    caller,
    planOf(steps),
  );

describe('carrying out a plan', () => {
  it('writes in the order of the types, and takes away in the reverse order after that', async () => {
    const done: string[] = [];
    const { complete } = await run(
      stepsOf(done, {
        bricks: [change('create', 'a'), change('delete', 'b')],
        houses: [change('update', 'c'), change('delete', 'd')],
      }),
    );
    expect(complete).toBe(true);
    expect(done).toEqual(['create a', 'update c', 'delete d', 'delete b']);
  });

  it('stops at the first step that fails and says so', async () => {
    const done: string[] = [];
    const changes = {
      bricks: [change('create', 'a')],
      houses: [change('create', 'b')],
      towns: [change('create', 'c')],
    };
    const { complete, moduleResults } = await run(stepsOf(done, changes, ['houses']));
    expect(complete).toBe(false);
    expect(done).toEqual(['create a']);
    expect(moduleResults.shop).toMatchObject({
      bricks: { created: 1, failed: 0, unchanged: 2 },
      houses: { created: 0, failed: 1, errors: ['houses are in the way'] },
      towns: { created: 0, failed: 1, errors: ['not tried, because an earlier step failed'] },
    });
  });

  it('goes on when told so', async () => {
    const done: string[] = [];
    const { complete } = await run(
      stepsOf(done, { houses: [change('create', 'b')], towns: [change('create', 'c')] }, [
        'houses',
      ]),
      true,
    );
    expect(complete).toBe(false);
    expect(done).toEqual(['create c']);
  });
});
