/**
 * The codes of errors are one grammar: <SUBJECT>_<PROBLEM>. A client that knows one knows how the next is spelled:
 * `FILE_NOT_FOUND`, `TEAM_EXISTS`, `EMAIL_INVALID`. Whoever adds a code takes a problem of this list, or adds one here
 * in sight of the others.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

/** What can be wrong with a subject. */
const problems = [
  // it is not there, or there is none
  'NOT_FOUND',
  'MISSING',
  'UNKNOWN',
  'GONE',
  'REQUIRED',
  'NOT_PENDING',
  // it is there already, or belongs to something
  'EXISTS',
  'IN_USE',
  'OWNED',
  'BUILT_IN',
  'IMPORTED',
  'REFERENCED',
  'NOT_EMPTY',
  'NOT_UNIQUE',
  'UNCHANGED',
  'CHANGED',
  'REUSED',
  // it is not as it should be
  'INVALID',
  'INCORRECT',
  'MALFORMED',
  'MISMATCH',
  'WEAK',
  'INCOMPATIBLE',
  'VIOLATED',
  'UNVERIFIED',
  'NOT_VERIFIED',
  'NOT_PUBLIC',
  'NOT_ANONYMOUS',
  'ANONYMOUS',
  'NOT_EXTENDABLE',
  'NOT_RETRYABLE',
  'UNSUPPORTED',
  'FAILED',
  'INFECTED',
  'NOT_SEARCHABLE',
  'NOT_QUERYABLE',
  'NOT_CANCELLABLE',
  'EXPIRED',
  // it may not be, or may not be now
  'DENIED',
  'FORBIDDEN',
  'REFUSED',
  'NOT_ALLOWED',
  'PROTECTED',
  'READ_ONLY',
  'BLOCKED',
  'NOT_BLOCKED',
  'SUPPRESSED',
  'DISABLED',
  'CLOSED',
  'BUSY',
  'RUNNING',
  'PENDING',
  'ACTIVE',
  'EXAMINED',
  'OPTED_OUT',
  'TIMEOUT',
  'CONFLICT',
  'TOO_SOON',
  'TOO_SLOW',
  'UNAVAILABLE',
  // there is too much of it
  'EXCEEDED',
  'EXHAUSTED',
  'TOO_LARGE',
  'FULL',
];

/** Statuses of HTTP by their names, which every surface answers. */
const statuses = [
  'CONFLICT',
  'FORBIDDEN',
  'INTERNAL_SERVER_ERROR',
  'INVALID_ARGUMENTS',
  'METHOD_NOT_ALLOWED',
  'NOT_FOUND',
  'RANGE_NOT_SATISFIABLE',
  'RATE_LIMIT',
  'REQUEST_TIMEOUT',
  'TIMEOUT',
  'UNAUTHORIZED',
  'UNAVAILABLE',
  'UNSUPPORTED_MEDIA_TYPE',
];

/** Spelled so by the specification or by clients of before: they stay. */
const given = [
  'EMPTY_FILTER',
  'INVALID_BASE64',
  'INVALID_INVITATION',
  'INVALID_MIME',
  'INVALID_NAME',
  'INVALID_RECIPIENT',
  'PRIVATE_IN_PUBLIC',
  'PROVIDER_AUTH',
  'PROVIDER_ERROR',
  'UNSUPPORTED_TYPE',
  'WRONG_FIELDS',
];

/** Every code of every catalogue. */
const root = join(import.meta.dirname, '..');
const sources = globSync('src/**/*.ts', { cwd: root }).filter((path) => !path.endsWith('.test.ts'));
const codes = sources.flatMap((path) => {
  const text = readFileSync(join(root, path), 'utf8');
  if (!/\bdefineErrors\(/.test(text)) return [];
  return [...text.matchAll(/^\s+([A-Z][A-Z0-9_]+): \[/gm)].map(([, code = '']) => code);
});

const follows = (code: string): boolean =>
  problems.some((problem) => code.length > problem.length + 1 && code.endsWith(`_${problem}`));

it('error codes name a subject and its problem', () => {
  expect(codes.length).toBeGreaterThan(200);
  const strays = codes.filter(
    (code) => !follows(code) && !statuses.includes(code) && !given.includes(code),
  );
  expect([...new Set(strays)]).toEqual([]);
});

it('the lists hold nothing that no code uses', () => {
  const all = new Set(codes);
  expect([...statuses, ...given].filter((code) => !all.has(code))).toEqual([]);
  expect(problems.filter((problem) => !codes.some((code) => code.endsWith(`_${problem}`)))).toEqual(
    [],
  );
});
