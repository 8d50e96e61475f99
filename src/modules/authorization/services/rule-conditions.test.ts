import { describe, expect, it } from 'vitest';
import { conditionProblems, conditionsHold, type RuleConditions } from './rule-conditions.ts';

const record = { owner: 'u1', stars: 3, state: 'live', tags: ['a', 'b'], closed: null, ok: false };
const caller = { _id: 'u1', email: 'u1@example.com', level: 5 };
const holds = (conditions: RuleConditions) => conditionsHold(conditions, { record, caller });

describe('conditions of rules', () => {
  it.each<RuleConditions>([
    {},
    { state: 'live' },
    { ok: false },
    { closed: null },
    { owner: '$user._id' },
    { owner: { eq: { caller: '_id' } } },
    { 'caller._id': { eq: { record: 'owner' } } },
    { stars: { gt: 2, lt: 4 } },
    { stars: { $lt: { caller: 'level' } } },
    { state: { in: ['live', 'draft'] } },
    { 'caller._id': { nin: ['u2'] } },
    { state: { ne: 'draft' } },
    { missing: { exists: false } },
    { closed: { exists: false } },
    { state: { $exists: true } },
  ])('%j holds', (conditions) => {
    expect(conditionProblems(conditions)).toEqual([]);
    expect(holds(conditions)).toBe(true);
  });

  it.each<RuleConditions>([
    { state: 'draft' },
    { stars: '3' },
    { missing: 'x' },
    { missing: { ne: 'x' } },
    { missing: { nin: ['x'] } },
    { 'caller.missing': { eq: { record: 'missing' } } },
    { stars: { gt: '2' } },
    { tags: { gt: 1 } },
    { state: { in: 'live' } },
    { state: { regex: 'l.*' } },
    { constructor: { exists: true } },
    { state: 'live', stars: 4 },
  ])('%j does not hold', (conditions) => {
    expect(holds(conditions)).toBe(false);
  });

  it('nothing holds about a record that is not there', () => {
    for (const conditions of [{ state: 'live' }, { state: { ne: 'x' } }]) {
      expect(conditionsHold(conditions, { record: undefined, caller })).toBe(false);
    }
  });

  it.each<[string, RuleConditions]>([
    ['conditions.a b', { 'a b': 1 }],
    ['conditions.a', { a: [1] }],
    ['conditions.a.regex', { a: { regex: 'x' } }],
    ['conditions.a.in', { a: { in: 'x' } }],
    ['conditions.a.in', { a: { in: [{}] } }],
    ['conditions.a.exists', { a: { exists: 'yes' } }],
    ['conditions.a.eq', { a: { eq: { caller: 'a.b' } } }],
    ['conditions', Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`f${i}`, 1]))],
  ])('a problem has its place: %s', (path, conditions) => {
    expect(conditionProblems(conditions).map((problem) => problem.path)).toEqual([path]);
  });
});
