import { describe, expect, it } from 'vitest';
import type { Problem } from '../../../kernel/errors.ts';
import { evaluateCondition, parseCondition } from './condition.ts';

const now = '2026-06-01T12:00:00.000Z';

function ask(
  input: unknown,
  attributes: Readonly<Record<string, unknown>> = {},
  context: Readonly<Record<string, unknown>> = {},
) {
  const problems: Problem[] = [];
  const condition = parseCondition(input, 'c', problems);
  expect(problems).toEqual([]);
  if (!condition) throw new Error('not parsed');
  const { holds, missing } = evaluateCondition(condition, { attributes, context, now });
  return missing.length > 0 ? missing : holds;
}

const a = { attribute: 'a' };
const c = { context: 'c' };

describe('conditions', () => {
  it.each<[unknown, Record<string, unknown>, boolean]>([
    [{ eq: [a, 1] }, { a: 1 }, true],
    [{ eq: [a, 1] }, { a: '1' }, false],
    [{ ne: [a, 1] }, { a: 2 }, true],
    [{ gt: [a, 1] }, { a: 2 }, true],
    [{ gte: [a, 2] }, { a: 2 }, true],
    [{ lt: [a, 'b'] }, { a: 'a' }, true],
    [{ lte: [a, 'b'] }, { a: 'c' }, false],
    [{ in: [a, ['x', 'y']] }, { a: 'y' }, true],
    [{ in: ['x', a] }, { a: 'x' }, false],
    [{ exists: a }, {}, false],
    [{ all: [{ gt: [a, 1] }, { lt: [a, 3] }] }, { a: 2 }, true],
    [{ any: [{ eq: [a, 1] }, { eq: [a, 2] }] }, { a: 2 }, true],
    [{ not: { eq: [a, 1] } }, { a: 2 }, true],
  ])('%j with %j is %s', (condition, attributes, expected) =>
    expect(ask(condition, attributes)).toBe(expected),
  );

  it('make nothing true out of what is not there', () => {
    expect(ask({ not: { eq: [a, 1] } })).toBe(false);
    expect(ask({ ne: [a, 1] })).toBe(false);
    expect(ask({ not: { lt: [a, 1] } }, { a: 'text' })).toBe(false);
    expect(ask({ any: [{ eq: [a, 1] }, { eq: [1, 1] }] })).toBe(true);
  });

  it('do not find what objects inherit', () => {
    expect(ask({ exists: { attribute: 'constructor' } })).toBe(false);
    expect(ask({ exists: { context: 'toString' } })).toBe(false);
  });

  it('name the values that the answer hangs on, and only then', () => {
    expect(ask({ eq: [c, 1] })).toEqual(['c']);
    expect(ask({ eq: [c, 1] }, {}, { c: 1 })).toBe(true);
    expect(ask({ all: [{ eq: [c, 1] }, { eq: [1, 2] }] })).toBe(false);
    expect(ask({ any: [{ eq: [c, 1] }, { eq: [1, 1] }] })).toBe(true);
    expect(ask({ all: [{ eq: [c, 1] }, { eq: [a, 1] }] })).toBe(false);
    expect(ask({ not: { all: [{ eq: [c, 1] }, { eq: [1, 1] }] } })).toEqual(['c']);
  });

  it('compare moments as moments, however they are written', () => {
    expect(ask({ lt: [{ now: true }, a] }, { a: '2026-06-01T12:00:00Z' })).toBe(false);
    expect(ask({ lte: [{ now: true }, a] }, { a: '2026-06-01T14:00:00+02:00' })).toBe(true);
    expect(ask({ gt: [{ now: true }, a] }, { a: '2026-06-01' })).toBe(true);
    expect(ask({ not: { gt: [{ now: true }, a] } }, { a: 'tomorrow' })).toBe(false);
  });

  it('have a bounded size', () => {
    const problems: Problem[] = [];
    parseCondition({ all: Array.from({ length: 100 }, () => ({ exists: a })) }, 'c', problems);
    expect(problems[0]?.rule).toBe('size');
  });
});
