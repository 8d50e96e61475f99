// The conformance data of CEL, for the part of the language that rules take.
import type { IncrementalTest, IncrementalTestSuite } from '@bufbuild/cel-spec/testdata/tests.js';
import { getConformanceSuite } from '@bufbuild/cel-spec/testdata/tests.js';
import { describe, expect, it } from 'vitest';
import { ruleEnvironment } from './environment.ts';
import { compileRule, inputsFrom } from './rule.ts';
import { RuleError } from './syntax.ts';

const nothing = ruleEnvironment({});

/** True, false or an error; nothing for what is no rule. */
function answerOf(text: string, environment = nothing): boolean | 'error' | undefined {
  try {
    const known = inputsFrom(new Map());
    if (compileRule(text, environment).evaluate(known).holds) return true;
    return compileRule(`!(${text})`, environment).evaluate(known).holds ? false : 'error';
  } catch (error) {
    if (error instanceof RuleError) return undefined;
    throw error;
  }
}

function* testsOf(suite: IncrementalTestSuite): Generator<IncrementalTest> {
  yield* suite.tests;
  for (const inner of suite.suites) yield* testsOf(inner);
}

/** What a test wants, as a text that must be true, and `undefined` for what rules have no type for. */
function expectedOf({
  original,
}: IncrementalTest): { text: string; expected: true | 'error' } | undefined {
  const { expr, resultMatcher, bindings } = original;
  if (Object.keys(bindings).length > 0) return undefined;
  if (resultMatcher.case === 'evalError') return { text: expr, expected: 'error' };
  if (resultMatcher.case !== 'value') return undefined;
  const { kind } = resultMatcher.value;
  switch (kind.case) {
    case 'boolValue':
      return { text: kind.value ? expr : `!(${expr})`, expected: true };
    case 'int64Value':
    case 'uint64Value':
    case 'doubleValue':
    case 'stringValue': {
      const literal = kind.case === 'stringValue' ? JSON.stringify(kind.value) : String(kind.value);
      return { text: `(${expr}) == (${literal})`, expected: true };
    }
    default:
      return undefined;
  }
}

/** Where rules differ on purpose. */
const differs: readonly (readonly [pattern: RegExp, why: string])[] = [
  [/^0\.0\/0\.0/, 'division by zero has no value, of doubles too: PostgreSQL does not know it'],
  [/\d{7,9}Z'|\dns'/, 'moments and spans have microseconds, as in PostgreSQL'],
];

describe('conformance with CEL', () => {
  it('answers what the specification wants, for all tests that are rules', () => {
    const odd: string[][] = [];
    let asked = 0;
    for (const test of testsOf(getConformanceSuite())) {
      const question = expectedOf(test);
      if (!question || differs.some(([pattern]) => pattern.test(test.original.expr))) continue;
      const found = answerOf(question.text);
      if (found === undefined) continue;
      asked++;
      if (found !== question.expected)
        odd.push([question.text, String(question.expected), String(found)]);
    }
    expect(odd).toEqual([]);
    expect(asked).toBeGreaterThan(400);
  });
});
