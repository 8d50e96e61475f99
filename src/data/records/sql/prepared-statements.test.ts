/** Compiled statements: a predicate that says the same again is not compiled again, and each statement has its own values. */
import { describe, expect, it, vi } from 'vitest';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { createPlanCache, type PlanCache } from './prepared-statements.ts';

describe('a dynamic statement', () => {
  const schema = {} as CompiledSchema;
  /** A list from `skip` on, of what `who` may see, with a guard of this moment. */
  const ask = (
    plans: PlanCache,
    { who, skip, moment }: { who: string; skip: number; moment: number },
    compiled: () => void,
    identity?: object,
  ) =>
    plans.statement(
      {
        ...{ schema, shape: 'list', values: [skip], dynamic: true, identity },
        guard: (next) => `now < ${next(moment)}`,
      },
      ({ next }, guardText) => {
        compiled();
        return `offset $1 where owner = ${next(who)} and again = ${next(who)}, ${guardText()}`;
      },
    );
  const text = 'offset $1 where owner = $2 and again = $3, now < $4';

  it('of a predicate that is known is filled without compiling it: own values, the page of now, the guard of now', () => {
    const plans = createPlanCache();
    const compiled = vi.fn();
    const [ann, bob] = [{}, {}];
    for (let i = 1; i <= 5; i += 1) {
      const own = ask(plans, { who: 'ann', skip: i, moment: i * 10 }, compiled, ann);
      expect(own).toMatchObject({ text, values: [i, 'ann', 'ann', i * 10] });
      const other = ask(plans, { who: 'bob', skip: i, moment: i * 20 }, compiled, bob);
      expect(other).toMatchObject({ text, values: [i, 'bob', 'bob', i * 20] });
    }
    expect(compiled).toHaveBeenCalledTimes(2);
  });

  it('is compiled each time where nothing says that the predicate is the same', () => {
    const plans = createPlanCache();
    const compiled = vi.fn();
    for (const who of ['ann', 'bob', 'ann'])
      expect(ask(plans, { who, skip: 0, moment: 1 }, compiled)).toMatchObject({
        text,
        values: [0, who, who, 1],
      });
    expect(compiled).toHaveBeenCalledTimes(3);
  });

  it('has its text also when that was forgotten while the values were not', () => {
    const plans = createPlanCache();
    const ann = {};
    ask(plans, { who: 'ann', skip: 1, moment: 1 }, () => undefined, ann);
    for (let i = 0; i < 300; i += 1)
      plans.statement({ schema, shape: `other ${i}`, values: [], dynamic: false }, () => `${i}`);
    const again = ask(plans, { who: 'ann', skip: 2, moment: 3 }, () => undefined, ann);
    expect(again).toMatchObject({ text, values: [2, 'ann', 'ann', 3] });
  });

  it('sends the same bytes once, and has a text of its own where other values are the same', () => {
    const plans = createPlanCache();
    const [first, second] = [Buffer.from('a'), Buffer.from('a')];
    const statementOf = (given: readonly Buffer[], identity?: object) =>
      plans.statement(
        { ...{ schema, shape: 'bytes', values: [1], dynamic: true, identity } },
        ({ next }) => `$1 ${given.map(next).join(' ')}`,
      );
    for (const identity of [undefined, {}])
      for (let again = 0; again < 5; again += 1) {
        expect(statementOf([first, second, first], identity)).toMatchObject({
          ...{ text: '$1 $2 $3 $2', values: [1, first, second] },
        });
      }
    expect(statementOf([first, second, second])).toMatchObject({
      ...{ text: '$1 $2 $3 $3', values: [1, first, second] },
    });
    expect(statementOf([first, second, Buffer.from('b')])).toMatchObject({ text: '$1 $2 $3 $4' });
  });
});
