import { expect, it } from 'vitest';
import { errors } from './errors.ts';
import { explainFailure, StartError } from './start-error.ts';

it('calls only that a bug which nobody but us can mend', () => {
  const say = (error: unknown): string => explainFailure(error, { withStack: false });
  expect(say(new StartError('Set PORT to another number'))).toBe('Set PORT to another number');
  // While migrations run: a full disk, a table that others hold.
  expect(say(errors.STORAGE_FULL())).toBe(errors.STORAGE_FULL.message);
  expect(say(errors.TIMEOUT())).toBe(errors.TIMEOUT.message);
  expect(say(errors.INTERNAL_SERVER_ERROR())).toContain('this is a bug');
  expect(say(new TypeError('x is undefined'))).toMatch(/^x is undefined \(this is a bug.*where\)$/);
  expect(explainFailure(new TypeError('x'), { withStack: true })).toContain('start-error.test.ts');
});
