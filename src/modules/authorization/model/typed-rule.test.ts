import { describe, expect, it } from 'vitest';
import { PenstockError, type Problem } from '../../../kernel/errors.ts';
import { evaluateCondition, parseCondition } from './condition.ts';
import { parseDefinition } from './definition.ts';
import { buildModel } from './model.ts';
import { tupleProblem } from './tuple.ts';

const now = '2026-06-01T12:00:00.000Z';

function ask(
  input: unknown,
  attributes: Readonly<Record<string, unknown>>,
  context: Readonly<Record<string, unknown>> = {},
) {
  const problems: Problem[] = [];
  const condition = parseCondition(input, 'conditions.c', problems);
  if (!condition) throw new Error(JSON.stringify(problems));
  return evaluateCondition(condition, { attributes, context, now });
}

const messagesOf = (input: unknown): readonly string[] => {
  const problems: Problem[] = [];
  parseCondition(input, 'conditions.c', problems);
  return problems.map(({ path, message }) => `${path}: ${message}`);
};

describe('conditions in CEL', () => {
  it('take a parameter from the tuple, else from the request', () => {
    const condition = { params: { until: 'timestamp' }, rule: 'now < until' };
    expect(ask(condition, { until: '2026-07-01T00:00:00Z' })).toEqual({
      holds: true,
      possible: true,
      missing: [],
    });
    expect(ask(condition, {}, { until: '2026-07-01T00:00:00Z' }).holds).toBe(true);
    const both = ask(
      condition,
      { until: '2026-01-01T00:00:00Z' },
      { until: '2026-07-01T00:00:00Z' },
    );
    expect(both.holds).toBe(false);
    expect(ask(condition, {})).toEqual({ holds: false, possible: true, missing: ['until'] });
  });

  it('refuse a value of another type, with its name', () => {
    const condition = { params: { amount: 'int' }, rule: 'amount > 3' };
    const wrong = () => ask(condition, {}, { amount: '5' });
    expect(wrong).toThrow(PenstockError);
    expect(wrong).toThrow(
      expect.objectContaining({
        status: 400,
        errors: [{ path: 'context.amount', rule: 'type', message: 'must be a whole number' }],
      }),
    );
    // Written when another type was declared: no value, never true, and nothing that is certainly false.
    expect(ask(condition, { amount: '5' })).toEqual({ holds: false, possible: true, missing: [] });
  });

  it('say what is wrong with them, and where', () => {
    expect(messagesOf({ params: { a: 'time' }, rule: 'a' })[0]).toMatch(
      /^conditions\.c\.params\.a: must be one of bool/,
    );
    expect(messagesOf({ params: { a: 'int' }, rule: 'a >\n "x"' })).toEqual([
      'conditions.c.rule: line 1, column 3: int and string have no order',
    ]);
    expect(messagesOf({ rule: 'record.x == 1' })).toEqual([
      'conditions.c.rule: line 1, column 1: "record" is not known here: there are now',
    ]);
    expect(messagesOf({ rule: 'true', also: 1 })).toEqual([
      'conditions.c.also: a rule has only "rule" and "params"',
    ]);
  });

  it('take only values of their types in tuples', () => {
    const definition = parseDefinition({
      name: 'Doc',
      relations: { viewer: ['User with inTime'] },
      permissions: { read: ['viewer'] },
      conditions: { inTime: { params: { until: 'timestamp' }, rule: 'now < until' } },
    });
    const user = parseDefinition({ name: 'User', relations: {}, permissions: {} });
    const model = buildModel([definition, user], 1);
    const problem = (attributes: Record<string, unknown>) =>
      tupleProblem(model, {
        subject: { type: 'User', id: 'u', relation: '' },
        relation: 'viewer',
        resource: { type: 'Doc', id: 'd' },
        condition: 'inTime',
        attributes,
      })?.errors?.[0];
    expect(problem({ until: '2026-07-01T00:00:00Z' })).toBeUndefined();
    expect(problem({})).toBeUndefined();
    expect(problem({ until: 'tomorrow' })).toMatchObject({
      path: 'attributes.until',
      rule: 'type',
    });
    expect(problem({ unti: 1 })).toMatchObject({ path: 'attributes.unti', rule: 'name' });
  });
});
